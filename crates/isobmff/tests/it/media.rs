//! Real files from other writers: all parse or give an error, and the results match those of
//! mp4-atom.

use crate::sample::{media, top_level};
use latemux_isobmff::{
    boxes::{
        ctts::CompositionOffsets,
        ftyp::FileType,
        mfra::{Mfra, mfro_size},
        sidx::Sidx,
        stss::SyncSamples,
    },
    cursor::Cursor,
    fragment::Moof,
    movie::{Movie, Track},
};
use mp4_atom::Decode;

#[test]
fn all_media_files_parse_or_give_an_error() {
    let mut files = 0;
    let mut moovs = 0;
    let mut tracks = 0;
    let mut moofs = 0;
    let mut sidxs = 0;
    let mut mfras = 0;
    let mut errors = Vec::new();
    for (name, bytes) in media() {
        files += 1;
        let mut consumed = 0;
        for (kind, offset, raw) in top_level(&bytes) {
            consumed = offset + raw.len() as u64;
            let error = match &kind.0 {
                b"moov" => match Movie::parse(&raw, offset) {
                    Ok(movie) => {
                        moovs += 1;
                        tracks += movie.tracks.iter().flatten().count();
                        movie.tracks.iter().find_map(|track| track.as_ref().err().map(ToString::to_string))
                    }
                    Err(error) => Some(error.to_string()),
                },
                b"moof" => Moof::parse(&raw, offset).map(|_| moofs += 1).err().map(|e| e.to_string()),
                b"sidx" => Sidx::parse(&raw, offset).map(|_| sidxs += 1).err().map(|e| e.to_string()),
                b"mfra" => {
                    assert_eq!(mfro_size(&bytes).map(|size| size as usize), Some(raw.len()), "{name}");
                    Mfra::parse(&raw, offset).map(|_| mfras += 1).err().map(|e| e.to_string())
                }
                b"ftyp" | b"styp" => {
                    let payload = Cursor::new(&raw, offset).boxes().next().unwrap().unwrap().payload;
                    FileType::parse(payload, kind).err().map(|e| e.to_string())
                }
                _ => None,
            };
            errors.extend(error.map(|error| format!("{name}: {error}")));
        }
        if consumed != bytes.len() as u64 {
            println!("{name}: the last box reaches beyond the file, from byte {consumed} of {}", bytes.len());
        }
    }
    println!("{files} files: {moovs} moov, {tracks} tracks, {moofs} moof, {sidxs} sidx, {mfras} mfra");
    println!("{} errors\n{}", errors.len(), errors.join("\n"));
    if files > 0 {
        assert!(moovs > 40 && moofs > 20 && sidxs > 5 && mfras > 3, "too few boxes were found");
        assert_eq!(errors, [""; 0], "other software plays all of these files");
    }
}

#[test]
fn mp4_atom_reads_the_same_moov() {
    let mut compared = 0;
    let mut skipped = Vec::new();
    for (name, bytes) in media() {
        for (kind, offset, raw) in top_level(&bytes) {
            if kind != b"moov" {
                continue;
            }
            match mp4_atom::Moov::decode(&mut &raw[..]) {
                Ok(theirs) => {
                    compared += 1;
                    same_movie(&name, &Movie::parse(&raw, offset).unwrap(), &theirs);
                }
                Err(error) => skipped.push(format!("{name}: mp4-atom fails: {error}")),
            }
        }
    }
    println!("{compared} compared, {} skipped\n{}", skipped.len(), skipped.join("\n"));
    assert!(compared > 20 || (compared == 0 && skipped.is_empty()));
}

fn same_movie(name: &str, ours: &Movie, theirs: &mp4_atom::Moov) {
    assert_eq!(ours.timescale.get(), theirs.mvhd.timescale, "{name}");
    assert_eq!(ours.tracks.len(), theirs.trak.len(), "{name}");
    assert_eq!(ours.fragments.is_some(), theirs.mvex.is_some(), "{name}");
    let defaults = theirs.mvex.iter().flat_map(|mvex| &mvex.trex);
    for (ours, theirs) in ours.fragments.iter().flatten().zip(defaults) {
        assert_eq!(
            [ours.track_id, ours.sample_description_index, ours.duration, ours.size, ours.flags],
            [
                theirs.track_id,
                theirs.default_sample_description_index,
                theirs.default_sample_duration,
                theirs.default_sample_size,
                theirs.default_sample_flags
            ],
            "{name}"
        );
    }
    for (ours, theirs) in ours.tracks.iter().zip(&theirs.trak) {
        same_track(name, ours.as_ref().unwrap(), theirs);
    }
}

fn same_track(name: &str, ours: &Track, theirs: &mp4_atom::Trak) {
    assert_eq!(ours.id, theirs.tkhd.track_id, "{name}");
    assert_eq!(ours.enabled, theirs.tkhd.enabled, "{name}");
    assert_eq!(ours.alternate_group, theirs.tkhd.alternate_group.cast_signed(), "{name}");
    assert_eq!(ours.timescale.get(), theirs.mdia.mdhd.timescale, "{name}");
    assert_eq!(&ours.handler.0, theirs.mdia.hdlr.handler.as_ref(), "{name}");
    assert_eq!(ours.display_size.0 >> 16, u32::from(theirs.tkhd.width.integer()), "{name}");
    let edits: Vec<_> = ours.edits.iter().map(|edit| (edit.duration, edit.media_time)).collect();
    let elst = theirs.edts.iter().filter_map(|edts| edts.elst.as_ref()).flat_map(|elst| &elst.entries);
    assert_eq!(
        edits,
        elst.map(|edit| (edit.segment_duration, edit.media_time)).collect::<Vec<_>>(),
        "{name}"
    );

    let tables = &ours.tables;
    let stbl = &theirs.mdia.minf.stbl;
    assert_eq!(ours.sample_entries.len(), stbl.stsd.codecs.len(), "{name}");
    let stts = stbl.stts.entries.iter().map(|run| (run.sample_count, run.sample_delta));
    assert!(tables.stts.iter().map(|run| (run.count, run.delta)).eq(stts), "{name}: stts");
    assert_eq!(tables.ctts.is_some(), stbl.ctts.is_some(), "{name}");
    // Values of version 0 are signed in this crate, but not in mp4-atom.
    let ctts = stbl.ctts.iter().flat_map(|ctts| &ctts.entries);
    let ctts = ctts.map(|run| (run.sample_count, run.sample_offset as i32));
    let runs = tables.ctts.iter().flat_map(CompositionOffsets::iter);
    assert!(runs.map(|run| (run.count, run.offset)).eq(ctts), "{name}: ctts");
    let stsc = stbl.stsc.entries.iter();
    assert!(
        tables
            .stsc
            .iter()
            .map(|run| [run.first_chunk, run.samples_per_chunk, run.sample_description_index])
            .eq(stsc.map(|run| [run.first_chunk, run.samples_per_chunk, run.sample_description_index])),
        "{name}: stsc"
    );
    let sizes: Vec<u32> = match &stbl.stsz.samples {
        mp4_atom::StszSamples::Identical { count, size } => vec![*size; *count as usize],
        mp4_atom::StszSamples::Different { sizes } => sizes.clone(),
    };
    assert!(tables.stsz.iter().eq(sizes), "{name}: stsz");
    let stco = stbl.stco.iter().flat_map(|stco| &stco.entries).map(|&offset| u64::from(offset));
    let co64 = stbl.co64.iter().flat_map(|co64| co64.entries.iter().copied());
    assert!(tables.stco.iter().eq(stco.chain(co64)), "{name}: stco");
    assert_eq!(tables.stss.is_some(), stbl.stss.is_some(), "{name}");
    let stss = stbl.stss.iter().flat_map(|stss| stss.entries.iter().copied());
    assert!(tables.stss.iter().flat_map(SyncSamples::iter).eq(stss), "{name}: stss");
}

#[test]
fn mp4_atom_reads_the_same_fragments_and_indexes() {
    let mut moofs = 0;
    let mut sidxs = 0;
    let mut tfras = 0;
    let mut skipped = Vec::new();
    for (name, bytes) in media() {
        for (kind, offset, raw) in top_level(&bytes) {
            match &kind.0 {
                b"moof" => match mp4_atom::Moof::decode(&mut &raw[..]) {
                    Ok(theirs) => {
                        moofs += 1;
                        same_fragment(&name, &Moof::parse(&raw, offset).unwrap(), &theirs);
                    }
                    Err(error) => skipped.push(format!("{name} moof at {offset}: {error}")),
                },
                b"sidx" => {
                    let theirs = mp4_atom::Sidx::decode(&mut &raw[..]).unwrap();
                    let ours = Sidx::parse(&raw, offset).unwrap();
                    sidxs += 1;
                    assert_eq!(
                        (ours.reference_id, ours.timescale.get(), ours.earliest_presentation_time),
                        (theirs.reference_id, theirs.timescale, theirs.earliest_presentation_time)
                    );
                    assert_eq!(ours.first_offset, theirs.first_offset);
                    let theirs = theirs.references.iter().map(|r| {
                        (
                            r.reference_type,
                            r.referenced_size,
                            r.subsegment_duration,
                            r.starts_with_sap,
                            r.sap_type,
                        )
                    });
                    let ours = ours
                        .references
                        .iter()
                        .map(|r| (r.is_index, r.size, r.duration, r.starts_with_sap, r.sap_type));
                    assert!(ours.eq(theirs), "{name}: sidx");
                }
                b"mfra" => match mp4_atom::Mfra::decode(&mut &raw[..]) {
                    Ok(theirs) => {
                        let ours = Mfra::parse(&raw, offset).unwrap();
                        assert_eq!(ours.tracks.len(), theirs.tfra.len());
                        for (ours, theirs) in ours.tracks.iter().zip(&theirs.tfra) {
                            tfras += 1;
                            assert_eq!(ours.track_id, theirs.track_id);
                            let ours = ours.entries.iter();
                            let ours = ours.map(|e| (e.time, e.moof_offset, e.traf, e.trun, e.sample));
                            let theirs = theirs.entries.iter().map(|e| {
                                (e.time, e.moof_offset, e.traf_number, e.trun_number, e.sample_delta)
                            });
                            assert!(ours.eq(theirs), "{name}: tfra");
                        }
                    }
                    Err(error) => skipped.push(format!("{name} mfra: {error}")),
                },
                _ => {}
            }
        }
    }
    println!("{moofs} moof, {sidxs} sidx, {tfras} tfra compared, {} skipped", skipped.len());
    println!("{}", skipped.join("\n"));
}

fn same_fragment(name: &str, ours: &Moof, theirs: &mp4_atom::Moof) {
    assert_eq!(
        (ours.sequence, ours.tracks.len()),
        (theirs.mfhd.sequence_number, theirs.traf.len()),
        "{name}"
    );
    for (ours, theirs) in ours.tracks.iter().zip(&theirs.traf) {
        let tfhd = &theirs.tfhd;
        assert_eq!(ours.track_id, tfhd.track_id, "{name}");
        assert_eq!(ours.base_data_offset, tfhd.base_data_offset, "{name}");
        assert_eq!(
            [ours.sample_description_index, ours.default_duration, ours.default_size, ours.default_flags],
            [
                tfhd.sample_description_index,
                tfhd.default_sample_duration,
                tfhd.default_sample_size,
                tfhd.default_sample_flags
            ],
            "{name}"
        );
        assert_eq!(ours.default_base_is_moof, tfhd.default_base_is_moof, "{name}");
        assert_eq!(ours.decode_time, theirs.tfdt.as_ref().map(|tfdt| tfdt.base_media_decode_time), "{name}");
        assert_eq!(ours.runs.len(), theirs.trun.len(), "{name}");
        for (ours, theirs) in ours.runs.iter().zip(&theirs.trun) {
            assert_eq!(ours.data_offset, theirs.data_offset, "{name}");
            let ours = ours.iter().map(|s| (s.duration, s.size, s.flags, s.composition_offset));
            let theirs = theirs.samples.iter().map(|s| {
                let cts = s.cts.map_or(0, |cts| i32::try_from(cts).unwrap());
                (s.duration, s.size, s.flags, cts)
            });
            assert!(ours.eq(theirs), "{name}: trun");
        }
    }
}
