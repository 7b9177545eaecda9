//! Parameter sets and sequence headers written bit by bit, with every element that a parser has to
//! skip.

use super::sample_entries::packed;
use crate::bits::BitReader;
use crate::codec::parameter_sets::Sequence;
use crate::codec::{Colour, av1_sequence, avc, hevc_sps};

/// Encodes `ue(v)`.
fn ue(value: u32) -> String {
    let code = format!("{:b}", value + 1);
    "0".repeat(code.len() - 1) + &code + " "
}

/// Encodes `se(v)`.
fn se(value: i32) -> String {
    ue(if value > 0 { value.unsigned_abs() * 2 - 1 } else { value.unsigned_abs() * 2 })
}

fn ues(values: &[u32]) -> String {
    values.iter().map(|&value| ue(value)).collect()
}

/// Returns a VUI head: 4:3 samples written out, overscan, full range, BT.2020 with PQ.
fn vui() -> String {
    format!("1 11111111 {:016b} {:016b} 1 0 1 101 1 1 {:08b} {:08b} {:08b} ", 4, 3, 9, 16, 9)
}

fn expected(size: (u16, u16)) -> Sequence {
    Sequence {
        size: Some(size),
        colour: Some(Colour { primaries: 9, transfer: 16, matrix: 9 }),
        full_range: Some(true),
        aspect: Some((4, 3)),
    }
}

/// Returns the head of an AVC set of High 4:2:2, level 4.0, id 0, with a scaling matrix of eight
/// lists. The first and the seventh are present; the seventh ends early.
fn avc_head() -> String {
    let mut bits = format!("01100111 {:08b} 00000000 {:08b} ", 122, 40) + &ue(0);
    // 4:2:2, 10 bit, scaling matrix.
    bits += &(ues(&[2, 2, 2]) + "0 1 ");
    bits += &("1 ".to_owned() + &se(8) + &se(0).repeat(15) + "0 0 0 0 0 ");
    bits += &("1 ".to_owned() + &se(-4) + &se(-4) + "0 ");
    bits
}

fn avc_sequence(rest: &str) -> Sequence {
    let mut sequence = Sequence::default();
    avc::parameter_set(&mut BitReader::new(&packed(&(avc_head() + rest))), &mut sequence);
    sequence
}

#[test]
fn an_avc_set_with_every_element_is_read() {
    // The seventh list: 8 - 4 - 4 = 0 ends it. Then frame numbers, picture order count type 1 with
    // two offsets.
    let order = ue(4) + &ue(1) + "1 " + &se(-2) + &se(3) + &ue(2) + &se(1) + &se(-1);
    // Four references, no gaps, 120x34 map units of interlaced pictures, cropped by 3 and 1, 1 and
    // 1.
    let size = ue(4) + "0 " + &ues(&[119, 33]) + "0 1 1 1 " + &ues(&[2, 1, 1, 1]);
    // 4:2:2: each offset takes off two pixels across and, in field pairs, two lines down.
    assert_eq!(avc_sequence(&(order + &size + "1 " + &vui())), expected((1914, 1084)));
    // Picture order count types 0 and 2, frames only, not cropped, no VUI.
    for order in [ue(0) + &ue(2), ue(2)] {
        let sequence = avc_sequence(&(ue(4) + &order + &ue(4) + "0 " + &ues(&[119, 67]) + "1 1 0 0"));
        assert_eq!(sequence, Sequence { size: Some((1920, 1088)), ..Sequence::default() });
    }
}

#[test]
fn a_cut_avc_set_keeps_the_fields_read_so_far() {
    let size = ue(4) + &ue(2) + &ue(4) + "0 " + &ues(&[119, 67]) + "1 1 0 1 1 11111111";
    assert_eq!(avc_sequence(&size).size, Some((1920, 1088)));
    // More macroblocks than a sample entry's size can state.
    let huge = ue(4) + &ue(2) + &ue(4) + "0 " + &ues(&[1 << 20, 67]) + "1 1 0 0";
    assert_eq!(avc_sequence(&huge), Sequence::default());
}

fn hevc_sequence(rest: &str) -> Sequence {
    // NAL unit header; id, two sub-layers, nested; general profile and level. The first sub-layer
    // states both profile and level.
    let head =
        format!("01000010 00000001 0000 001 1 {} 11 {} {} ", "0".repeat(96), "00".repeat(7), "1".repeat(96));
    let mut sequence = Sequence::default();
    hevc_sps::parameter_set(&mut BitReader::new(&packed(&(head + rest))), &mut sequence);
    sequence
}

#[test]
fn an_hevc_set_with_every_element_is_read() {
    let mut bits = ue(0);
    // 4:2:2, 1920x1088 cropped by 1 and 2, 0 and 8.
    bits += &(ues(&[2, 1920, 1088]) + "1 " + &ues(&[1, 2, 0, 8]));
    // 10 bit; order counts of 8 bits; buffering for both sub-layers; block sizes.
    bits += &(ues(&[2, 2, 4]) + "1 " + &ues(&[4, 2, 0]).repeat(2) + &ues(&[0, 3, 0, 3, 1, 1]));
    // Scaling lists: all predicted, except one of each size that is written out.
    bits += "1 1 ";
    for (size, lists) in [(0, 6), (1, 6), (2, 6), (3, 2)] {
        bits += &("1 ".to_owned()
            + if size > 1 { "1 " } else { "" }
            + &se(0).repeat(if size == 0 { 16 } else { 64 }));
        bits += &("0 ".to_owned() + &ue(1)).repeat(lists - 1);
    }
    // Asymmetric partitions, offsets; PCM.
    bits += &("1 1 1 0111 0111 ".to_owned() + &ues(&[0, 2]) + "1 ");
    // Four sets of reference pictures: the first with two and one pictures; the second derived from
    // it, with three of four possible pictures kept, one of them for later sets only; the third
    // derived from that with all four; the fourth empty.
    bits += &(ue(4) + &ues(&[2, 1]) + &(ue(0) + "1 ").repeat(3));
    bits += &("1 0 ".to_owned() + &ue(0) + "1 01 1 00 ");
    bits += &("1 1 ".to_owned() + &ue(3) + "1 1 1 1 ");
    bits += &("0 ".to_owned() + &ues(&[0, 0]));
    // Two long-term pictures; temporal motion vectors, strong intra smoothing.
    bits += &("1 ".to_owned() + &ue(2) + "00000001 1 00000010 0 " + "1 1 ");
    assert_eq!(hevc_sequence(&(bits.clone() + "1 " + &vui())), expected((1914, 1080)));
    assert_eq!(hevc_sequence(&(bits + "0 ")).aspect, None);
}

#[test]
fn hevc_counts_beyond_the_standard_are_refused() {
    let head = ues(&[0, 1, 640, 360])
        + "0 "
        + &ues(&[0, 0, 4])
        + "0 "
        + &ues(&[4, 2, 0])
        + &ues(&[0, 3, 0, 3, 1, 1])
        + "0 00 0 ";
    let size = Sequence { size: Some((640, 360)), ..Sequence::default() };
    let none = ue(0) + "0 00 1 " + &vui();
    assert_eq!(hevc_sequence(&(head.clone() + &none)), expected((640, 360)));
    for sets in [ue(65), ue(1) + &ues(&[17, 0]), ue(1) + &ues(&[0, 17]), ue(0) + "1 " + &ue(33)] {
        assert_eq!(hevc_sequence(&(head.clone() + &sets + &"1".repeat(4000))), size);
    }
}

/// Returns a temporal delimiter with an extension, then a sequence header without its size.
fn av1_obus(header: &str) -> Vec<u8> {
    [vec![0b0001_0110, 0b0010_1001, 0, 0b0000_1000], packed(header)].concat()
}

#[test]
fn an_av1_header_with_every_element_is_read() {
    // Profile 2, moving pictures. Timing with equal intervals, a decoder model with delays of 10
    // bits; display delays; two operating points with all optional fields, the first of a high
    // level with tier.
    let mut bits =
        format!("010 0 0 1 {} 1 00101 1 01001 {} 00100 00100 1 00001 ", "0".repeat(64), "0".repeat(32));
    bits += &format!("000000000011 01000 1 1 {} 1 1 0011 ", "0".repeat(21));
    bits += &format!("000000000001 00100 1 {} 0 ", "1".repeat(21));
    // 11 bits each: 1920x1080; frame ids; superblocks, filters.
    bits += &format!("1010 1010 {:011b} {:011b} 1 0000 000 111 ", 1919, 1079);
    // Inter tools; order hints with all; screen content not chosen but forced, motion vectors not
    // chosen.
    bits += "1111 1 11 0 1 0 1 110 111 ";
    // 12 bit, colour described.
    let colour = format!("1 1 0 1 {:08b} {:08b} {:08b} 1 ", 9, 16, 9);
    let sequence = av1_sequence::first_header(&av1_obus(&(bits.clone() + &colour))).unwrap();
    assert_eq!(sequence, Sequence { aspect: None, ..expected((1920, 1080)) });
    // sRGB has no range flag and is full range.
    let srgb = format!("0 0 1 {:08b} {:08b} {:08b} 0 ", 1, 13, 0);
    assert_eq!(av1_sequence::first_header(&av1_obus(&(bits + &srgb))).unwrap().full_range, Some(true));
}

#[test]
fn a_reduced_av1_header_of_a_still_picture_is_read() {
    // Reduced header: level, 8 bits each, 200x100, superblocks and filters, colour not described,
    // monochrome.
    let bits = format!("000 1 1 00100 0111 0111 {:08b} {:08b} 000 000 0 1 0 1 ", 199, 99);
    let sequence = av1_sequence::first_header(&av1_obus(&bits)).unwrap();
    assert_eq!(sequence, Sequence { size: Some((200, 100)), full_range: Some(true), ..Sequence::default() });
}
