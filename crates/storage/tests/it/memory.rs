use bytes::Bytes;
use futures_util::{FutureExt, future::BoxFuture};
use latemux_storage::conformance::{self, Fixture};
use latemux_storage::{Key, Memory};
use std::sync::Arc;

struct InMemory(Arc<Memory>);

impl Fixture for InMemory {
    fn put<'a>(&'a mut self, key: &'a Key, bytes: Bytes) -> BoxFuture<'a, ()> {
        async move { drop(self.0.put(key.clone(), bytes)) }.boxed()
    }

    fn remove<'a>(&'a mut self, key: &'a Key) -> BoxFuture<'a, ()> {
        async move { assert!(self.0.remove(key)) }.boxed()
    }
}

#[tokio::test]
async fn conforms() {
    let memory = Arc::new(Memory::new());
    conformance::run(&*memory, &mut InMemory(Arc::clone(&memory))).await;
}

#[test]
fn version_is_a_function_of_the_bytes() {
    let a = Memory::new();
    let b = Memory::new();
    let key = Key::new("x").unwrap();
    assert_eq!(a.put(key.clone(), "one"), b.put(key.clone(), "one"));
    assert_ne!(a.put(key.clone(), "two"), b.put(key, "six"));
}
