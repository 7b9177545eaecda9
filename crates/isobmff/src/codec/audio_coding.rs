//! The codec-specific part of an audio description, which every audio codec's parser returns.

use super::description::{Audio, Config, DeclaredBitrate};
use super::sample_entry::AudioFields;

/// Codec-specific part of a [`Codec`](super::description::Codec).
pub(super) struct AudioCoding {
    pub(super) rfc6381: String,
    pub(super) config: Config,
    pub(super) audio: Audio,
    pub(super) bitrate: DeclaredBitrate,
}

impl AudioCoding {
    /// Creates a coding with the channels and rate of the codec's configuration. For values that it
    /// does not state (0), those of the sample entry are used.
    pub(super) fn new(rfc6381: String, config: Config, coded: AudioFields, stated: AudioFields) -> Self {
        let channels = if coded.channels == 0 { stated.channels } else { coded.channels };
        let sample_rate = if coded.sample_rate == 0 { stated.sample_rate } else { coded.sample_rate };
        let audio = Audio { channels, sample_rate, joc: None };
        Self { rfc6381, config, audio, bitrate: DeclaredBitrate::default() }
    }
}
