use super::*;
use base64::{Engine as _, engine::general_purpose::STANDARD};

const KID: &str = "00010203-0405-0607-0809-0a0b0c0d0e0f";
const OTHER: &str = "10111213-1415-1617-1819-1a1b1c1d1e1f";
/// The key deadbeef…
const SECRET: &str = "3q2+796tvu/erb7v3q2+7w==";

fn key(kid: &str, attributes: &str) -> String {
    format!(
        "<ContentKey kid=\"{kid}\" {attributes}><Data><pskc:Secret>\n<pskc:PlainValue>\n {SECRET}\n\
         </pskc:PlainValue></pskc:Secret></Data></ContentKey>"
    )
}

fn document(keys: &str, rest: &str) -> String {
    format!(
        "<CPIX xmlns=\"{CPIX}\" xmlns:pskc=\"{PSKC}\" version=\"2.3\"><ContentKeyList>{keys}</ContentKeyList>\
         {rest}</CPIX>"
    )
}

fn with_rule(rule: &str) -> String {
    document(&key(KID, ""), &format!("<ContentKeyUsageRuleList>{rule}</ContentKeyUsageRuleList>"))
}

fn with_system(system: DrmSystem, inner: &str) -> String {
    let system = system.uuid();
    let list = format!("<DRMSystem kid=\"{KID}\" systemId=\"{system}\">{inner}</DRMSystem>");
    document(&key(KID, ""), &format!("<DRMSystemList>{list}</DRMSystemList>"))
}

#[test]
fn keys_come_with_schemes_ivs_and_rules() {
    let keys =
        key(KID, "explicitIV=\"AAECAwQFBgcICQoLDA0ODw==\" commonEncryptionScheme=\"cbcs\"") + &key(OTHER, "");
    let rules = format!(
        "<ContentKeyUsageRuleList>\
         <ContentKeyUsageRule kid=\"{KID}\" intendedTrackType=\"Video\"><VideoFilter minPixels=\"1\" maxFps=\"30\"/>\
         <BitrateFilter maxBitrate=\"9\"/><LabelFilter label=\"main\"/></ContentKeyUsageRule>\
         <ContentKeyUsageRule kid=\"{KID}\" intendedTrackType=\"AUDIO\"/></ContentKeyUsageRuleList>"
    );
    let read = read(&document(&keys, &rules)).unwrap();
    assert_eq!((read[0].scheme, read[1].scheme), (Some(Scheme::Cbcs), None));
    assert_eq!(read[0].key.iv().map(|iv| iv[15]), Some(15));
    assert_eq!(read[0].key.key().expose()[..4], [0xde, 0xad, 0xbe, 0xef]);
    let rules = read[0].rules.as_ref().unwrap();
    assert_eq!(rules[0].video[0].pixels, Bounds { min: Some(1), max: None });
    assert_eq!(rules[0].video[0].frame_rate, Bounds { min: None, max: Some(30) });
    assert_eq!((rules[0].bitrate[0].max, rules[0].labels[0].as_str()), (Some(9), "main"));
    assert_eq!(rules[1].kind, Some(IntendedKind::Audio));
    // A key without a rule, in a document that has rules, is for no track.
    assert_eq!(read[1].rules.as_deref(), Some(&[][..]));
    assert!(super::read(&document(&keys, "")).unwrap().iter().all(|key| key.rules.is_none()));
}

#[test]
fn signalling_is_taken_as_it_is() {
    let pssh = crate::systems::pssh_box(&DrmSystem::Widevine.id(), &[], &[1, 2, 3]);
    let tag = "METHOD=SAMPLE-AES,URI=\"skd://a\",KEYFORMAT=\"com.apple.streamingkeydelivery\"";
    let inner = format!(
        "<PSSH>{}</PSSH><HLSSignalingData playlist=\"multiVariant\">AAAA</HLSSignalingData>\
         <HLSSignalingData playlist=\"media\">{}</HLSSignalingData>",
        STANDARD.encode(&pssh),
        STANDARD.encode(format!("#EXT-X-KEY:{tag}\n"))
    );
    let keys = read(&with_system(DrmSystem::Widevine, &inner)).unwrap();
    let stated = keys[0].key.stated_for(DrmSystem::Widevine).unwrap();
    assert_eq!((stated.pssh.as_deref(), stated.hls.as_deref()), (Some(&pssh[..]), Some(tag)));
    assert_eq!(DrmSystem::Widevine.pssh(&keys[0].key, Scheme::Cenc), Some(pssh));
    // Empty elements state nothing.
    let empty = "<PSSH/><ContentProtectionData/><HLSSignalingData playlist=\"media\"/>";
    let keys = read(&with_system(DrmSystem::FairPlay, empty)).unwrap();
    assert_eq!(keys[0].key.stated_for(DrmSystem::FairPlay).unwrap().hls, None);
}

#[test]
fn what_is_not_understood_is_refused_without_repeating_it() {
    let rule = |filter: &str| {
        with_rule(&format!("<ContentKeyUsageRule kid=\"{KID}\">{filter}</ContentKeyUsageRule>"))
    };
    let hls = |text: &str| {
        let text = STANDARD.encode(text);
        with_system(DrmSystem::FairPlay, &format!("<HLSSignalingData>{text}</HLSSignalingData>"))
    };
    let wrong = STANDARD.encode(crate::systems::pssh_box(&DrmSystem::PlayReady.id(), &[], &[]));
    let valid = document(&key(KID, ""), "");
    read(&valid).unwrap();
    for (text, problem) in [
        (String::new(), "well-formed"),
        (format!("<!DOCTYPE a [<!ENTITY b \"c\">]>{valid}"), "well-formed"),
        (format!("{valid}{}", " ".repeat(MAX_BYTES)), "longer"),
        (valid.replace("2.3", "3.0"), "version"),
        (valid.replace("urn:dashif:org:cpix", "urn:other"), "root"),
        (document("", ""), "no keys"),
        (document(&(key(KID, "") + &key(KID, "")), ""), "same KID"),
        (document(&key("00000000-0000-0000-0000-000000000000", ""), ""), "a kid is"),
        (document(&key(KID, "explicitIV=\"3q2+\""), ""), "explicitIV"),
        (document(&key(KID, "commonEncryptionScheme=\"cens\""), ""), "neither"),
        (valid.replace(SECRET, "3q2+796tvu8="), "a key is not"),
        (valid.replace("PlainValue", "EncryptedValue"), "encrypted keys"),
        (valid.replace("pskc:Secret", "pskc:Counter"), "no secret"),
        (document(&key(KID, ""), "<ContentKeyPeriodList/>"), "periods"),
        (rule("<KeyPeriodFilter periodId=\"a\"/>"), "periods"),
        (rule("<VideoFilter hdr=\"true\"/>"), "attribute"),
        (rule("<VideoFilter minPixels=\"-1\"/>"), "bound"),
        (rule("<x:Other xmlns:x=\"urn:other\"/>"), "filter that"),
        (with_rule(&format!("<ContentKeyUsageRule kid=\"{OTHER}\"/>")), "lacks"),
        (with_system(DrmSystem::Widevine, &format!("<PSSH>{wrong}</PSSH>")), "not a box"),
        (with_system(DrmSystem::Widevine, "<PSSH>deadbeef!</PSSH>"), "not base64"),
        (hls("#EXT-X-KEY:METHOD=NONE\n#EXT-X-ENDLIST"), "HLS"),
        (hls("#EXTINF:4"), "HLS"),
        (hls("#EXT-X-KEY:METHOD=SAMPLE-AES,URI=\"a\u{1b}\""), "HLS"),
    ] {
        let error = read(&text).unwrap_err().to_string();
        assert!(error.contains(problem), "{error}: {problem}");
        assert!(!error.contains("3q2+") && !error.contains("deadbeef"), "{error}");
    }
}

#[test]
fn documents_with_too_many_keys_are_refused() {
    let keys = |count: u128| {
        let kids = (1..=count).map(|n| crate::key::uuid(&n.to_be_bytes()));
        document(&kids.map(|kid| key(&kid, "")).collect::<String>(), "")
    };
    assert_eq!(read(&keys(256)).unwrap().len(), 256);
    assert!(read(&keys(257)).unwrap_err().to_string().contains("more than 256"));
    let deep = format!("{}{}", "<a>".repeat(150_000), "</a>".repeat(10));
    assert!(read(&deep).unwrap_err().to_string().contains("well-formed"));
}
