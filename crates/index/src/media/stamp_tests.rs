use super::*;
use proptest::prelude::*;

proptest! {
    #[test]
    fn a_written_stamp_is_found(size: u64, head: Vec<u8>, before: Vec<u8>) {
        let stamp = MediaStamp::of(size, &head);
        let mut moov = Vec::new();
        latemux_isobmff::emit::put_header(&mut moov, FourCc(*b"moov"), 8 + before.len() as u64 + stamp.size());
        latemux_isobmff::emit::put_header(&mut moov, FourCc(*b"free"), before.len() as u64);
        moov.put_slice(&before);
        stamp.write(&mut moov);
        prop_assert_eq!(MediaStamp::find(&moov.clone().into()), Some(stamp));
        for len in 0..moov.len() {
            prop_assert_eq!(MediaStamp::find(&Bytes::copy_from_slice(&moov[..len])), None);
        }
    }
}

#[test]
fn a_different_size_or_start_is_reported() {
    let head = vec![7; 20_000];
    let stamp = MediaStamp::of(50_000, &head);
    assert_eq!(u64::from(stamp.head), MEDIA_HEAD);
    assert_eq!(stamp.differs(50_000, &head), None);
    assert!(stamp.differs(50_001, &head).unwrap().contains("50001"));
    let mut other = head.clone();
    other[16_383] = 8;
    assert!(stamp.differs(50_000, &other).unwrap().contains("16384"));
    // Later bytes are not compared: callers compare the versions of both objects.
    other = head;
    other[16_384] = 8;
    assert_eq!(stamp.differs(50_000, &other), None);
}
