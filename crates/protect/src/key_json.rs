//! Keys as nginx-vod-module gets them from `vod_drm_request_uri`, in base64:
//!
//! ```json
//! [{"key": "…", "key_id": "…", "iv": "…", "pssh": [{"uuid": "UUID", "data": "…"}]}]
//! ```

use crate::{
    ContentKey, DrmSystem, Key, KeyId, Signalling,
    document::{DocumentError, DocumentKey, MAX_BYTES, MAX_KEYS, decoded, decoded_block},
    systems::pssh_box,
};
use serde::{Deserialize, Deserializer};
use zeroize::Zeroizing;

#[derive(Deserialize)]
struct Entry {
    #[serde(deserialize_with = "secret")]
    key: Zeroizing<String>,
    key_id: String,
    iv: Option<String>,
    #[serde(default)]
    pssh: Vec<Pssh>,
}

fn secret<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Zeroizing<String>, D::Error> {
    String::deserialize(deserializer).map(Zeroizing::new)
}

#[derive(Deserialize)]
struct Pssh {
    uuid: String,
    data: String,
}

/// Reads a document. Its keys are for all tracks.
///
/// # Errors
/// [`DocumentError`] for another form.
pub fn read(text: &str) -> Result<Vec<DocumentKey>, DocumentError> {
    if text.len() > MAX_BYTES {
        return Err(DocumentError("the document is longer than 1 MiB"));
    }
    let entries: Vec<Entry> = serde_json::from_str(text)
        .map_err(|_| DocumentError("the document is not a list of keys in JSON"))?;
    if entries.is_empty() || entries.len() > MAX_KEYS {
        return Err(DocumentError("the document has no keys, or more than 256"));
    }
    let mut keys: Vec<DocumentKey> = Vec::with_capacity(entries.len());
    for entry in &entries {
        let id = decoded_block(&entry.key_id).and_then(KeyId::new);
        let id = id.ok_or(DocumentError("a key_id is not 16 bytes of base64, or 0"))?;
        if keys.iter().any(|known| known.key.id() == id) {
            return Err(DocumentError("two keys have the same KID"));
        }
        let key = decoded_block(&entry.key).ok_or(DocumentError("a key is not 16 bytes of base64"))?;
        let iv = entry
            .iv
            .as_deref()
            .map(|text| decoded_block(text).ok_or(DocumentError("an iv is not 16 bytes of base64")));
        let signalling = entry.pssh.iter().filter_map(|pssh| signalling(pssh).transpose());
        let key = ContentKey::new(id, Key::new(key), iv.transpose()?)
            .with_signalling(signalling.collect::<Result<_, _>>()?);
        keys.push(DocumentKey { key, scheme: None, rules: None });
    }
    Ok(keys)
}

/// Returns what a known DRM system is told.
fn signalling(pssh: &Pssh) -> Result<Option<Signalling>, DocumentError> {
    let id: KeyId = pssh.uuid.parse().map_err(|_| DocumentError("a uuid of a pssh is not a UUID"))?;
    let Some(system) = DrmSystem::of_id(id.bytes()) else { return Ok(None) };
    let data = decoded(&pssh.data).ok_or(DocumentError("the data of a pssh is not base64"))?;
    Ok(Some(Signalling { system, pssh: Some(pssh_box(id.bytes(), &[], &data)), hls: None }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "EBESExQVFhcYGRobHB0eHw==";
    const KID: &str = "AAECAwQFBgcICQoLDA0ODw==";

    #[test]
    fn keys_come_with_ivs_and_pssh() {
        let text = format!(
            r#"[{{"key":"{KEY}","key_id":"{KID}","iv":"{KID}","pssh":[
                {{"uuid":"edef8ba9-79d6-4ace-a3c8-27dcd51d21ed","data":"CAE="}},
                {{"uuid":"00000000-79d6-4ace-a3c8-27dcd51d21ed","data":"CAE="}}]}}]"#
        );
        let keys = read(&text).unwrap();
        let key = &keys[0].key;
        assert_eq!(key.id().uuid(), "00010203-0405-0607-0809-0a0b0c0d0e0f");
        assert_eq!((key.key().expose()[1], key.iv().unwrap()[15]), (0x11, 15));
        let pssh = DrmSystem::Widevine.pssh(key, crate::Scheme::Cenc).unwrap();
        assert_eq!((pssh.len(), &pssh[28..]), (34, &[0, 0, 0, 2, 8, 1][..]));
    }

    #[test]
    fn other_forms_are_refused_without_repeating_them() {
        let entry = |entry: &str| format!("[{{{entry}}}]");
        let whole = format!(r#"{{"key":"{KEY}","key_id":"{KID}"}}"#);
        for text in [
            String::new(),
            "[]".to_owned(),
            "{}".to_owned(),
            entry(&format!(r#""key":"{KEY}""#)),
            entry(&format!(r#""key":"{KEY}AA","key_id":"{KID}""#)),
            entry(&format!(r#""key":"{KEY}","key_id":"AAAAAAAAAAAAAAAAAAAAAA==""#)),
            entry(&format!(r#""key":"{KEY}","key_id":"{KID}","iv":"{KEY}AA""#)),
            entry(&format!(r#""key":"{KEY}","key_id":"{KID}","pssh":[{{"uuid":"x","data":""}}]"#)),
            format!("[{whole},{whole}]"),
            "[".repeat(100_000),
        ] {
            let error = read(&text).unwrap_err().to_string();
            assert!(!error.contains("EBES") && !error.contains("AAEC"), "{error}");
        }
        assert_eq!(read(&format!("[{whole}]")).unwrap().len(), 1);
    }
}
