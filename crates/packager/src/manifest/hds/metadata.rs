//! `onMetaData` (Adobe Flash Video File Format Specification 10.1 §E.5) in AMF 0: the properties of
//! a stream that HDS players need before its first fragment.

use bytes::BufMut as _;
use latemux_index::Track;
use latemux_isobmff::codec::{Config, Media};

/// CodecID of AVC, and SoundFormat of MP3 and AAC.
const AVC: f64 = 7.0;
const MP3: f64 = 2.0;
const AAC: f64 = 10.0;

/// Returns the data of a script tag. `millis` is the duration of the presentation.
pub(super) fn on_meta_data<'a>(tracks: impl Iterator<Item = &'a Track>, millis: u64) -> Vec<u8> {
    #[expect(clippy::cast_precision_loss, reason = "exact below 2^53 ms")]
    let mut properties = vec![("duration", millis as f64 / 1000.0)];
    for track in tracks {
        match &track.codec.media {
            Media::Video(video) => properties.extend([
                ("width", f64::from(video.width)),
                ("height", f64::from(video.height)),
                ("videocodecid", AVC),
            ]),
            Media::Audio(audio) => properties.extend([
                ("audiocodecid", if track.codec.config == Config::Mp3 { MP3 } else { AAC }),
                ("audiosamplerate", f64::from(audio.sample_rate)),
                ("audiochannels", f64::from(audio.channels)),
            ]),
            Media::Text => {}
        }
    }
    let mut data = vec![STRING];
    put_name(&mut data, "onMetaData");
    data.put_u8(ECMA_ARRAY);
    data.put_u32(u32::try_from(properties.len()).unwrap_or(0));
    for (name, value) in properties {
        put_name(&mut data, name);
        data.put_u8(NUMBER);
        data.put_f64(value);
    }
    put_name(&mut data, "");
    data.put_u8(OBJECT_END);
    data
}

/// Type markers of AMF 0 (§E.4.4.2).
const NUMBER: u8 = 0;
const STRING: u8 = 2;
const ECMA_ARRAY: u8 = 8;
const OBJECT_END: u8 = 9;

fn put_name(data: &mut Vec<u8>, name: &str) {
    data.put_u16(u16::try_from(name.len()).unwrap_or(0));
    data.put_slice(name.as_bytes());
}
