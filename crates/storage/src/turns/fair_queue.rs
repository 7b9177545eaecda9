//! A queue in which the clients whose items wait get turns.

use std::collections::{HashMap, VecDeque};

/// Items that wait, each for a client. The items of one client keep their order. Of several
/// clients, one item of each leaves the queue in turn.
#[derive(Debug)]
pub(super) struct FairQueue<T> {
    /// The clients with items, in the order of their turns.
    order: VecDeque<u64>,
    by_client: HashMap<u64, VecDeque<T>>,
    len: usize,
}

impl<T> Default for FairQueue<T> {
    fn default() -> Self {
        Self { order: VecDeque::new(), by_client: HashMap::new(), len: 0 }
    }
}

impl<T> FairQueue<T> {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn push(&mut self, client: u64, item: T) {
        let items = self.by_client.entry(client).or_default();
        if items.is_empty() {
            self.order.push_back(client);
        }
        items.push_back(item);
        self.len += 1;
    }

    pub(super) fn pop(&mut self) -> Option<T> {
        let client = self.order.pop_front()?;
        let items = self.by_client.get_mut(&client)?;
        let item = items.pop_front()?;
        self.len -= 1;
        if !items.is_empty() {
            self.order.push_back(client);
        } else if self.by_client.len() > 1 {
            // The list of a queue of one client is kept, so that it need not be allocated again.
            self.by_client.remove(&client);
        }
        Some(item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_leave_in_turn_and_their_items_in_order() {
        let mut queue = FairQueue::default();
        for item in [(1, 'a'), (1, 'b'), (1, 'c'), (2, 'd'), (3, 'e'), (2, 'f')] {
            queue.push(item.0, item.1);
        }
        assert_eq!(queue.len(), 6);
        let first: String = std::iter::from_fn(|| queue.pop()).take(3).collect();
        assert_eq!(first, "ade");
        queue.push(3, 'g');
        let rest: String = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!((rest.as_str(), queue.len()), ("bfgc", 0));
        assert!(queue.by_client.len() <= 1, "clients without items are forgotten");
    }
}
