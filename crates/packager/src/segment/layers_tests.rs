use super::*;

/// Returns a NAL unit with a length of two bytes: its nal_ref_idc and type, the bytes behind its
/// header, and two bytes more.
fn unit(reference: u8, kind: u8, rest: &[u8]) -> Vec<u8> {
    let mut unit = vec![0, u8::try_from(rest.len() + 3).unwrap(), reference << 5 | kind];
    unit.extend(rest);
    unit.extend([0xaa, kind]);
    unit
}

/// Returns nal_unit_header_svc_extension() of priority_id, dependency_id, quality_id and
/// temporal_id.
fn header(priority: u8, dependency: u8, quality: u8, temporal: u8) -> [u8; 3] {
    [0x80 | priority, dependency << 4 | quality, temporal << 5]
}

fn priority(id: u8, dependency: u8, quality: u8, temporal: u8) -> LayerPriority {
    LayerPriority { id, dependency, quality, temporal, is_unreferenced: false }
}

fn layers(units: &[Vec<u8>]) -> Vec<(usize, LayerPriority)> {
    layers_of(&units.concat(), 2).into_iter().map(|layer| (layer.start, layer.priority)).collect()
}

#[test]
fn each_layer_begins_with_its_first_slice() {
    let delimiter = unit(0, 9, &[]);
    let sets = unit(3, 15, &[]);
    let prefix = unit(3, 14, &header(2, 0, 0, 1));
    let slice = unit(3, 1, &[]);
    let quality = unit(3, 20, &header(5, 0, 1, 1));
    let spatial = unit(3, 20, &header(9, 1, 0, 1));
    let filler = unit(0, 12, &[]);
    let units = [
        delimiter,
        sets,
        prefix.clone(),
        slice.clone(),
        prefix,
        slice.clone(),
        quality.clone(),
        quality,
        spatial,
        filler,
    ];
    let start = |count: usize| units[..count].concat().len();
    let expected =
        [(0, priority(2, 0, 0, 1)), (start(6), priority(5, 0, 1, 1)), (start(8), priority(9, 1, 0, 1))];
    assert_eq!(layers(&units), expected);
    // Without a prefix, the base layer has the values 0.
    assert_eq!(layers(&[slice]), [(0, priority(0, 0, 0, 0))]);
    assert_eq!(
        layers(&[unit(0, 1, &[])]),
        [(0, LayerPriority { is_unreferenced: true, ..LayerPriority::default() })]
    );
}

#[test]
fn what_is_no_layer_stays_with_the_slices_before_it() {
    let slice = || unit(3, 5, &[]);
    // A view of another coding, without svc_extension_flag; a layer that is not higher; a header
    // that is cut off.
    for other in
        [unit(3, 20, &[0, 0x10, 0]), unit(3, 20, &header(0, 0, 0, 3)), vec![0, 2, 20, 0x80], unit(3, 19, &[])]
    {
        assert_eq!(layers(&[slice(), other.clone()]), [(0, LayerPriority::default())], "{other:?}");
    }
    // A track of enhancement layers alone.
    assert_eq!(layers(&[unit(3, 20, &header(4, 1, 0, 2))]), [(0, priority(4, 1, 0, 2))]);
    // A length beyond the sample.
    let mut long = [slice(), unit(3, 20, &header(0, 1, 0, 0))].concat();
    long.pop();
    assert_eq!(layers(&[long]), [(0, LayerPriority::default())]);
    assert_eq!(layers(&[]), [(0, LayerPriority::default())]);
}

#[test]
fn a_layer_never_comes_before_the_one_below() {
    let units = [unit(3, 14, &header(7, 0, 0, 0)), unit(3, 1, &[]), unit(3, 20, &header(1, 1, 0, 0))];
    assert_eq!(layers(&units)[1].1, priority(7, 1, 0, 0));
}

#[test]
fn layers_beyond_the_most_stay_together() {
    let higher = (1..=40_u8).map(|layer| unit(3, 20, &header(0, layer / 16, layer % 16, 0)));
    let units: Vec<Vec<u8>> = [unit(3, 5, &[])].into_iter().chain(higher).collect();
    assert_eq!(layers(&units).len(), MAX_LAYERS + 1);
}

/// Returns a sample of so many bytes that is decoded at a time.
fn sample(size: usize, time: i64) -> Sample {
    Sample {
        offset: 0,
        size: u32::try_from(size).unwrap(),
        decode_time: time,
        duration: 1,
        composition_offset: 0,
        sync: time == 0,
    }
}

#[test]
fn priority_id_decides_before_the_layer() {
    // The second frame is of the second temporal layer. The encoder wants the enhancement of the
    // first one to come before it.
    let frames = [
        [unit(3, 14, &header(0, 0, 0, 0)), unit(3, 5, &[]), unit(3, 20, &header(1, 1, 0, 0))],
        [unit(3, 14, &header(2, 0, 0, 1)), unit(3, 1, &[]), unit(3, 20, &header(3, 1, 0, 1))],
        [unit(3, 14, &header(0, 0, 0, 0)), unit(3, 1, &[]), unit(3, 20, &header(1, 1, 0, 0))],
    ];
    let media: Vec<u8> = frames.iter().flatten().flatten().copied().collect();
    let samples: Vec<Sample> =
        (0..).zip(&frames).map(|(time, units)| sample(units.concat().len(), time)).collect();
    let layered = LayeredMedia { parts: Vec::new(), number: 1, samples, nal_length_size: 2 };
    let segment = layered.segment(&media).unwrap();
    let pieces = [
        [&frames[0][..2], &frames[2][..2]].concat().concat(),
        [&frames[0][2..], &frames[2][2..]].concat().concat(),
        frames[1].concat(),
    ];
    assert!(segment.ends_with(&pieces.concat()));
    let before = segment.len() - media.len();
    // The importance of each sample, each followed by the place of one layer.
    let info: Vec<u8> = segment[before - 27..before].iter().step_by(9).copied().collect();
    assert_eq!(info, [0, 3, 1]);
}

#[test]
fn missing_media_counts_as_zeros() {
    let samples = vec![sample(10, 0), sample(20, 1)];
    let layered = LayeredMedia { parts: Vec::new(), number: 1, samples, nal_length_size: 4 };
    let segment = layered.segment(&[1; 15]).unwrap();
    assert!(segment.ends_with(&[&[1; 10][..], &[0; 20]].concat()));
}

#[test]
fn the_lowest_layer_is_known_once_a_higher_one_begins() {
    let base = [unit(3, 14, &header(0, 0, 0, 0)), unit(3, 5, &[])].concat();
    let sample = [base.clone(), unit(3, 20, &header(0, 1, 0, 0)), unit(3, 20, &header(0, 1, 0, 0))].concat();
    for len in 0..=sample.len() {
        let expected = (len >= base.len() + 3).then_some(base.len());
        assert_eq!(lowest_layer(&sample[..len], 2), expected, "{len}");
    }
    // Without a slice of the base layer, nothing can be decoded.
    assert_eq!(lowest_layer(&sample[base.len()..], 2), None);
    assert_eq!(lowest_layer(&unit(3, 5, &[]), 2), None);
}
