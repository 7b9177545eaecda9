//! `latemux keys`: files of random keys, which `latemux serve` takes.

use std::{collections::BTreeSet, path::Path, process::Command};

fn keys(arguments: &[&str], file: &Path) -> (bool, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_latemux"));
    let out = command.arg("keys").args(arguments).arg("-o").arg(file).output().unwrap();
    (out.status.success(), String::from_utf8([out.stdout, out.stderr].concat()).unwrap())
}

#[test]
fn keys_are_random_and_suit_a_rule() {
    let folder = tempfile::tempdir().unwrap();
    let mut seen = BTreeSet::new();
    for (number, arguments) in [&[][..], &["--one"]].into_iter().enumerate() {
        let file = folder.path().join(format!("{number}.json"));
        let (is_made, said) = keys(arguments, &file);
        assert!(is_made, "{said}");
        let text = std::fs::read_to_string(&file).unwrap();
        let parsed: serde_json::Value = serde_json::from_str(&text).unwrap();
        let entries = parsed["keys"].as_array().unwrap();
        assert_eq!(entries.len(), 2 - number);
        for entry in entries {
            for value in [&entry["kid"], &entry["key"]] {
                let digits = value.as_str().unwrap();
                assert!(digits.len() == 32 && seen.insert(digits.to_owned()), "{text}");
                assert!(!said.contains(digits), "{said}");
            }
        }
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        }
        // A rule with the file is accepted.
        let config = folder.path().join("rule.toml");
        let rule = "[[drm]]\ntitles = [\"**\"]\ndash = \"cenc\"\nserve_keys = \"open\"\n";
        std::fs::write(&config, format!("{rule}keys.file = {:?}\n", file.display().to_string())).unwrap();
        let mut check = Command::new(env!("CARGO_BIN_EXE_latemux"));
        let out = check.arg("check").arg(&config).output().unwrap();
        let said = String::from_utf8([out.stdout, out.stderr].concat()).unwrap();
        assert!(!said.contains("drm,") && !said.contains("keys"), "{said}");
        // It is not overwritten.
        let (is_made, said) = keys(&[], &file);
        assert!(!is_made && said.contains("cannot write"), "{said}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
    }
}
