//! What the rules leave open: all answers are tried, the plainest first.

use super::settle::settle;
use super::world::World;

/// Most ways that are gone.
const MOST: usize = 3_000;

/// Answers questions from a script, and remembers what was asked.
#[derive(Debug, Default)]
pub(crate) struct Oracle {
    script: Vec<usize>,
    asked: Vec<(usize, usize)>,
}

impl Oracle {
    /// One of `among`; the first unless the script says otherwise.
    pub(crate) fn choose(&mut self, among: usize) -> usize {
        if among < 2 {
            return 0;
        }
        let answer = self.script.get(self.asked.len()).copied().unwrap_or(0);
        self.asked.push((answer, among));
        answer
    }

    /// The next script, until all were tried.
    fn next(self) -> Option<Self> {
        let last = self
            .asked
            .iter()
            .rposition(|(answer, among)| answer + 1 < *among)?;
        let mut script: Vec<usize> = self.asked[..=last].iter().map(|a| a.0).collect();
        script[last] += 1;
        Some(Self {
            script,
            asked: Vec::new(),
        })
    }
}

/// The state that routing comes to from here by the plainest way.
pub(crate) fn plainest(world: &World) -> World {
    let mut settled = world.clone();
    settle(&mut settled, &mut Oracle::default());
    settled
}

/// All states that routing may come to from here, each once.
pub(crate) fn outcomes(world: &World) -> Vec<World> {
    let mut found: Vec<World> = Vec::new();
    let mut next = Some(Oracle::default());
    for _ in 0..MOST {
        let Some(mut oracle) = next.take() else { break };
        let mut settled = world.clone();
        settle(&mut settled, &mut oracle);
        if !found.contains(&settled) {
            found.push(settled);
        }
        next = oracle.next();
    }
    found
}
