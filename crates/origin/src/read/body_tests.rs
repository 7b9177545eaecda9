use super::*;
use crate::{
    config::ReadConfig,
    read::fetch::tests::{bytes_of, library},
};
use http_body_util::BodyExt;
use latemux_packager::plan::Class;
use proptest::prelude::*;

/// Doubles every byte and holds back the last five until the end. With a surplus, the output is
/// longer than planned.
#[derive(Debug, Default)]
struct Doubling {
    held: Vec<u8>,
    surplus: usize,
}

impl Transform for Doubling {
    fn write(&mut self, input: &[u8], out: &mut BytesMut) {
        self.held.extend_from_slice(input);
        let ready = self.held.len().saturating_sub(5);
        for byte in self.held.drain(..ready) {
            out.extend_from_slice(&[byte, !byte]);
        }
    }

    fn finish(&mut self, out: &mut BytesMut) {
        for byte in self.held.drain(..) {
            out.extend_from_slice(&[byte, !byte]);
        }
        out.extend_from_slice(&vec![0; self.surplus]);
    }

    fn heap_bytes(&self) -> usize {
        self.held.capacity()
    }
}

fn plan_of(parts: Vec<Part>, transform: Option<Doubling>) -> Plan {
    let bytes: u64 = parts.iter().map(Part::len).sum();
    Plan {
        content_type: "video/mp4",
        content_length: if transform.is_some() { 2 * bytes } else { bytes },
        digest: 1,
        class: Class::Media,
        parts,
        transform: transform.map(|t| Box::new(t) as Box<dyn Transform>),
        reach: Vec::new(),
    }
}

fn source(range: Range<u64>) -> Part {
    Part::Source(SourceRange { object: 0, range })
}

async fn body_of(plan: Plan, window: Range<u64>, size: usize) -> Result<Body, Error> {
    let fetch = Fetch::new(library(&[size]).1, ReadConfig::default(), Arc::default());
    PlanBody::start(plan, window, fetch, &FirstByteWait::new(std::time::Duration::from_secs(1)))
        .await
        .map(|plan| Body::plan(plan, None))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]
    #[test]
    fn any_window_equals_that_window_of_the_whole_body(
        shape in prop::collection::vec((any::<bool>(), 0u64..190_000, 0u64..60_000), 0..6),
        ends in (0.0f64..=1.0, 0.0f64..=1.0),
        transformed in any::<bool>(),
    ) {
        let stored = bytes_of(0, 200_000);
        let at = |n: u64| usize::try_from(n).unwrap();
        let parts: Vec<Part> = shape
            .iter()
            .map(|&(inline, start, len)| {
                let range = start..(start + len).min(200_000);
                if inline { Part::Inline(stored.slice(at(range.start)..at(range.end))) } else { source(range) }
            })
            .collect();
        let whole: Vec<u8> = shape
            .iter()
            .flat_map(|&(_, start, len)| stored[at(start)..at((start + len).min(200_000))].to_vec())
            .flat_map(|byte| if transformed { vec![byte, !byte] } else { vec![byte] })
            .collect();
        let plan = plan_of(parts, transformed.then(Doubling::default));
        let len = plan.content_length;
        assert_eq!(at(len), whole.len());
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "small")]
        let (a, b) = ((ends.0 * len as f64) as u64, (ends.1 * len as f64) as u64);
        let window = a.min(b)..a.max(b);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let body = body_of(plan, window.clone(), 200_000).await.unwrap();
            assert_eq!(hyper::body::Body::size_hint(&body).exact(), Some(window.end - window.start));
            let got = body.collect().await.unwrap().to_bytes();
            assert_eq!(got[..], whole[at(window.start)..at(window.end)]);
        });
    }
}

#[tokio::test]
async fn frames_of_a_transform_are_bounded() {
    let mut body =
        body_of(plan_of(vec![source(0..900_000)], Some(Doubling::default())), 0..1_800_000, 900_000)
            .await
            .unwrap();
    let mut frames = 0;
    while let Some(frame) = body.frame().await {
        let len = frame.unwrap().into_data().unwrap().len();
        assert!(len <= 3 * FRAME, "{len}");
        frames += 1;
    }
    assert!(frames >= 10);
}

#[tokio::test]
async fn output_of_another_length_than_planned_is_an_error() {
    for (surplus, length) in [(3, 200), (0, 210), (0, 190)] {
        let mut plan = plan_of(vec![source(0..100)], Some(Doubling { surplus, ..Doubling::default() }));
        plan.content_length = length;
        let body = body_of(plan, 0..length, 1000).await.unwrap();
        let error = body.collect().await.map(|b| b.to_bytes().len()).unwrap_err();
        assert_eq!(error.reason(), "internal", "{surplus} {length}");
    }
}

#[tokio::test]
async fn parts_are_read_in_order_up_to_the_limit() {
    let parts = [source(10..20), Part::Inline(Bytes::from_static(b"ab")), source(0..0), source(0..5)];
    let mut fetch = Fetch::new(library(&[100]).1, ReadConfig::default(), Arc::default());
    let media = PlanBody::read_all(&parts, &mut fetch, 17).await.unwrap();
    let stored = bytes_of(0, 100);
    assert_eq!(media[..], [&stored[10..20], b"ab", &stored[0..5]].concat());
    assert!(PlanBody::read_all(&parts, &mut fetch, 16).await.is_err());
}
