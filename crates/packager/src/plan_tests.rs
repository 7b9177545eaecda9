use super::*;
use proptest::prelude::*;

fn source(object: usize, range: Range<u64>) -> Part {
    Part::Source(SourceRange { object, range })
}

fn untransformed(parts: Vec<Part>) -> Plan {
    Plan {
        content_type: "video/mp4",
        content_length: parts.iter().map(Part::len).sum(),
        digest: 0,
        class: Class::Media,
        parts,
        transform: None,
        reach: Vec::new(),
    }
}

/// Returns every byte of the parts, each with its origin.
fn origins(parts: &[Part]) -> Vec<(usize, u64)> {
    parts
        .iter()
        .flat_map(|part| match part {
            Part::Inline(bytes) => bytes.iter().map(|&b| (usize::MAX, u64::from(b))).collect::<Vec<_>>(),
            Part::Source(s) => s.range.clone().map(|at| (s.object, at)).collect(),
        })
        .collect()
}

#[test]
fn neighbouring_slices_are_joined() {
    let mut parts = Vec::new();
    for (object, range) in [(0, 5..7), (0, 7..9), (1, 9..10), (0, 10..10), (1, 10..11), (1, 12..13)] {
        Part::push_source(&mut parts, object, range);
    }
    assert_eq!(parts, [source(0, 5..9), source(1, 9..11), source(1, 12..13)]);
}

proptest! {
    #[test]
    fn a_slice_holds_its_range_of_the_body(
        parts in prop::collection::vec(
            prop_oneof![
                prop::collection::vec(any::<u8>(), 0..6).prop_map(|b| Part::Inline(b.into())),
                (0_usize..3, 0_u64..50, 0_u64..9).prop_map(|(o, at, len)| source(o, at..at + len)),
            ],
            0..8,
        ),
        from in 0_u64..60,
        len in 0_u64..60,
    ) {
        let mut plan = untransformed(parts);
        let whole = origins(&plan.parts);
        prop_assert_eq!(plan.cut(from..from + len), 0);
        let slice = origins(&plan.parts);
        let at = |n: u64| usize::try_from(n).unwrap().min(whole.len());
        prop_assert_eq!(slice.as_slice(), &whole[at(from)..at(from + len)]);
    }
}
