//! What the rules leave open: all answers are tried, the plainest first.

use super::settle::settle;
use super::world::World;

/// Most outcomes that are looked at.
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

/// All states that routing may come to from here, the plainest first.
pub(crate) fn outcomes(world: &World) -> Vec<World> {
    let mut found = Vec::new();
    let mut next = Some(Oracle::default());
    while let Some(mut oracle) = next.take() {
        let mut settled = world.clone();
        settle(&mut settled, &mut oracle);
        found.push(settled);
        if found.len() == MOST {
            break;
        }
        next = oracle.next();
    }
    found
}
