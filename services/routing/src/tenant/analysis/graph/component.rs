//! Strongly connected components.

/// Tarjan's algorithm without recursion: the components of a graph given by each node's successors,
/// a component after all that it leads to. Linear in nodes and edges.
pub(super) fn components(next: &[Vec<usize>]) -> Vec<Vec<usize>> {
    const NEW: usize = usize::MAX;
    let (mut order, mut low) = (vec![NEW; next.len()], vec![NEW; next.len()]);
    let mut open = vec![false; next.len()];
    let (mut stack, mut found, mut count) = (Vec::new(), Vec::new(), 0);
    for root in 0..next.len() {
        if order[root] != NEW {
            continue;
        }
        // A node, and how many of its successors are done.
        let mut calls = vec![(root, 0)];
        while let Some((node, done)) = calls.pop() {
            if done == 0 {
                (order[node], low[node]) = (count, count);
                count += 1;
                stack.push(node);
                open[node] = true;
            } else {
                let child = next[node][done - 1];
                if open[child] {
                    low[node] = low[node].min(low[child]);
                }
            }
            let mut at = done;
            let mut descend = None;
            while let Some(child) = next[node].get(at).copied() {
                at += 1;
                if order[child] == NEW {
                    descend = Some(child);
                    break;
                }
                if open[child] {
                    low[node] = low[node].min(order[child]);
                }
            }
            if let Some(child) = descend {
                calls.push((node, at));
                calls.push((child, 0));
                continue;
            }
            if low[node] == order[node] {
                let mut component = Vec::new();
                while let Some(member) = stack.pop() {
                    open[member] = false;
                    component.push(member);
                    if member == node {
                        break;
                    }
                }
                found.push(component);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::components;

    fn reaches(next: &[Vec<usize>], from: usize, to: usize) -> bool {
        let (mut seen, mut pending) = (vec![false; next.len()], vec![from]);
        while let Some(at) = pending.pop() {
            for child in &next[at] {
                if *child == to {
                    return true;
                }
                if !seen[*child] {
                    seen[*child] = true;
                    pending.push(*child);
                }
            }
        }
        false
    }

    proptest! {
        #[test]
        fn components_are_what_reaches_each_other_and_successors_come_first(
            edges in prop::collection::vec((0_usize..9, 0_usize..9), 0..30)
        ) {
            let mut next = vec![Vec::new(); 9];
            for (from, to) in edges {
                next[from].push(to);
            }
            let found = components(&next);
            let mut place = [usize::MAX; 9];
            for (at, component) in found.iter().enumerate() {
                for node in component {
                    prop_assert_eq!(place[*node], usize::MAX, "once");
                    place[*node] = at;
                }
            }
            for a in 0..9 {
                for b in 0..9 {
                    let together = a == b || (reaches(&next, a, b) && reaches(&next, b, a));
                    prop_assert_eq!(together, place[a] == place[b]);
                    if next[a].contains(&b) {
                        prop_assert!(place[b] <= place[a]);
                    }
                }
            }
        }
    }

    #[test]
    fn a_long_chain_needs_no_stack() {
        let next: Vec<Vec<usize>> = (0..100_000).map(|n| vec![(n + 1) % 100_000]).collect();
        assert_eq!(components(&next).len(), 1);
    }
}
