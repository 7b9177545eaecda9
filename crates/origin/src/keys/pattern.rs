//! Patterns of titles.

/// Returns true if a pattern matches all of a name. `*` stands for any characters but `/`, `**` for
/// any characters. The time is proportional to the product of both lengths.
pub(super) fn matches(pattern: &[u8], name: &[u8]) -> bool {
    // For each prefix of the name: true if the pattern so far matches it.
    let mut reached = vec![false; name.len() + 1];
    reached[0] = true;
    let mut rest = pattern;
    while let Some((&sign, after)) = rest.split_first() {
        rest = after;
        let is_star = sign == b'*';
        let crosses = is_star && rest.first() == Some(&b'*');
        if crosses {
            rest = rest.get(1..).unwrap_or_default();
        }
        let mut before = false;
        for (at, reached) in reached.iter_mut().enumerate() {
            let last = at.checked_sub(1).and_then(|at| name.get(at).copied());
            let was = *reached;
            *reached = match is_star {
                true => was || (before && (crosses || last != Some(b'/'))),
                false => before && last == Some(sign),
            };
            before = if is_star { *reached } else { was };
        }
    }
    reached.last().copied().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn stars_stand_for_names_and_double_stars_for_folders() {
        for (pattern, name, is_match) in [
            ("films/**", "films/a.mp4", true),
            ("films/**", "films/2024/a.mp4", true),
            ("films/**", "films", false),
            ("films/**", "filmsa/b", false),
            ("films/*", "films/a.mp4", true),
            ("films/*", "films/2024/a.mp4", false),
            ("**", "", true),
            ("**", "a/b", true),
            ("*", "a/b", false),
            ("*.mp4", "a.mp4", true),
            ("*.mp4", "a.mp4x", false),
            ("**/a-*.mp4", "x/y/a-1.mp4", true),
            ("**/a-*.mp4", "a-1.mp4", false),
            ("a", "a", true),
            ("a", "", false),
            ("", "", true),
            ("", "a", false),
            ("a**b*c", "a/b/bxc", true),
        ] {
            assert_eq!(matches(pattern.as_bytes(), name.as_bytes()), is_match, "{pattern} {name}");
        }
    }

    /// The definition, without regard to time.
    fn defined(pattern: &[u8], name: &[u8]) -> bool {
        match pattern {
            [] => name.is_empty(),
            [b'*', b'*', rest @ ..] => (0..=name.len()).any(|at| defined(rest, &name[at..])),
            [b'*', rest @ ..] => (0..=name.len())
                .take_while(|&at| !name[..at].contains(&b'/'))
                .any(|at| defined(rest, &name[at..])),
            [sign, rest @ ..] => name.first() == Some(sign) && defined(rest, &name[1..]),
        }
    }

    proptest! {
        #[test]
        fn matching_is_as_defined(pattern in "[*ab/]{0,8}", name in "[ab/]{0,8}") {
            let pattern = pattern.as_bytes();
            let name = name.as_bytes();
            prop_assert_eq!(matches(pattern, name), defined(pattern, name));
        }
    }
}
