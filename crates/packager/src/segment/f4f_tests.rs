use super::*;

#[test]
fn times_beyond_24_bits_use_the_extension_byte() {
    let mut body = Body::default();
    body.tag(VIDEO, 0x0123_4567, &[0x27, 1, 0, 0, 0], 10).unwrap();
    body.end_tag();
    let [Part::Inline(bytes)] = &body.into_parts(3).unwrap()[..] else { panic!("inline") };
    let head = b"\0\0\0\x18moof\0\0\0\x10mfhd\0\0\0\0\0\0\0\x03\0\0\0\x26mdat";
    assert_eq!(bytes[..32], head[..]);
    assert_eq!(bytes[32..48], [9, 0, 0, 15, 0x23, 0x45, 0x67, 0x01, 0, 0, 0, 0x27, 1, 0, 0, 0]);
    assert_eq!(bytes[48..], [0, 0, 0, 26]);
}

#[test]
fn a_sample_too_large_for_a_tag_is_refused() {
    let mut body = Body::default();
    assert!(body.tag(VIDEO, 0, &[0; 5], MAX_DATA - 5).is_ok());
    assert!(matches!(body.tag(VIDEO, 0, &[0; 5], MAX_DATA - 4), Err(PackError::TooLarge(_))));
}
