//! A title over files in memory. It indexes, plans and reads as an origin does, but without I/O.

use bytes::{Bytes, BytesMut};
use latemux_index::{
    IndexError, Title, UnpackedValues,
    locate::fragment_reader::{FragmentReader, FragmentStep},
    locate::{Locator, Step, limits::Limits, read_buffer::ObjectBytes},
    media::fragment_samples::{FragmentSamples, KnownFragments},
    media::{MediaIndex, TrackKind},
    title::TrackName,
};
use latemux_packager::{
    Address, PackError, Part, Plan, Planned, Resource, plan,
    plan::{Class, SourceRange},
    text_file,
};
use latemux_text::TextFormat;
use std::{collections::HashMap, ops::Range, path::Path, sync::Arc, time::Duration};

/// Base of the URLs of test titles.
pub const NAME: &str = "x";

/// Finds the index of an object in memory.
///
/// # Errors
/// The error of the [`Locator`].
pub fn index(object: &Bytes) -> Result<MediaIndex, IndexError> {
    run(&mut Locator::new(Limits::default()), object)
}

/// Gives a locator all bytes of an object that it asks for.
///
/// # Errors
/// The error of the locator.
pub fn run(locator: &mut Locator, object: &Bytes) -> Result<MediaIndex, IndexError> {
    let size = object.len() as u64;
    let mut wants: Vec<_> = std::iter::once(0..size.min(locator.first_reads(None).head)).collect();
    loop {
        let got = wants.iter().map(|range| read(object, range)).collect();
        match locator.step(size, got)? {
            Step::Read(more) | Step::Scan(more) => wants = more,
            Step::Done(index) => return Ok(*index),
        }
    }
}

fn read(object: &Bytes, range: &Range<u64>) -> ObjectBytes {
    let at = |n: u64| usize::try_from(n).expect("in memory").min(object.len());
    ObjectBytes { offset: range.start, bytes: object.slice(at(range.start)..at(range.end)) }
}

/// A title and the bytes of its objects.
#[derive(Debug)]
pub struct Origin {
    /// The objects, in the order of the title.
    pub objects: Vec<Bytes>,
    /// The title.
    pub title: Title,
    known: Known,
    /// Unpacked copies of columns, as after a title has been indexed for its first request.
    unpacked: Vec<UnpackedValues>,
}

/// Fragments whose samples have been read, by object and offset.
#[derive(Debug, Default)]
struct Known(HashMap<(usize, u64), Arc<FragmentSamples>>);

impl KnownFragments for Known {
    fn get(&self, object: usize, offset: u64) -> Option<Arc<FragmentSamples>> {
        self.0.get(&(object, offset)).cloned()
    }
}

/// A complete response.
#[derive(Debug)]
pub struct Response {
    /// The body.
    pub bytes: Vec<u8>,
    /// The length that was planned.
    pub content_length: u64,
    /// The media type.
    pub content_type: &'static str,
    /// The digest of the plan.
    pub digest: u128,
    /// The class of the response.
    pub class: Class,
}

impl Origin {
    /// Opens one title of several files.
    pub fn open(files: &[impl AsRef<Path>], target: Duration) -> Self {
        let read = |file: &dyn AsRef<Path>| Bytes::from(std::fs::read(file).expect("a readable file"));
        Self::of(files.iter().map(|file| read(file)).collect(), target).expect("a title")
    }

    /// Opens one title of several objects.
    ///
    /// # Errors
    /// The error of indexing an object, or of making the title.
    pub fn of(objects: Vec<Bytes>, target: Duration) -> Result<Self, IndexError> {
        let indexes = objects.iter().map(|o| index(o).map(Arc::new)).collect::<Result<Vec<_>, _>>()?;
        Self::of_indexes(objects, indexes, target)
    }

    /// Opens one title like [`Self::of`], for its first requests: unpacked copies of columns are
    /// kept until [`Self::drop_values`].
    ///
    /// # Errors
    /// The same as those of [`Self::of`].
    pub fn just_indexed(objects: Vec<Bytes>, target: Duration) -> Result<Self, IndexError> {
        let mut unpacked = Vec::new();
        let index = |object| {
            let mut index = run(&mut Locator::new(Limits::default()).keeping_values(), object)?;
            unpacked.push(index.take_unpacked());
            Ok(Arc::new(index))
        };
        let indexes = objects.iter().map(index).collect::<Result<Vec<_>, IndexError>>()?;
        Ok(Self { unpacked, ..Self::of_indexes(objects, indexes, target)? })
    }

    fn of_indexes(
        objects: Vec<Bytes>,
        indexes: Vec<Arc<MediaIndex>>,
        target: Duration,
    ) -> Result<Self, IndexError> {
        let title = Title::new(indexes, target)?;
        Ok(Self { title, objects, known: Known::default(), unpacked: Vec::new() })
    }

    /// Drops the unpacked copies of columns. Returns false if there were none.
    pub fn drop_values(&mut self) -> bool {
        let any = self.unpacked.iter().any(|values| !values.is_empty());
        self.unpacked.clear();
        any
    }

    /// Adds a file of text beside the media, whose name ends with its form.
    #[must_use]
    pub fn with_text(mut self, name: &str, text: &[u8], target: Duration) -> Self {
        let format = TextFormat::of_name(name).expect("the name of a file of text");
        let mut objects = self.title.objects().to_vec();
        objects.push(Arc::new(text_file::index(format, name, text).expect("a readable text")));
        self.title = Title::new(objects, target).expect("a title");
        self
    }

    /// Returns the names of all tracks of a kind.
    pub fn names(&self, kind: TrackKind) -> Vec<TrackName> {
        self.title.of_kind(kind).map(|i| self.title.tracks()[i].name.clone()).collect()
    }

    /// Returns the number of segments of a track.
    pub fn segment_count(&self, name: &TrackName) -> u32 {
        self.title.tracks()[self.title.find(name).expect("a track")].segment_count()
    }

    /// Plans a request for a resource of the whole title, and reads the `moof`s that the plan
    /// needs.
    ///
    /// # Errors
    /// The error of planning.
    pub fn plan(&mut self, resource: &Resource) -> Result<Plan, PackError> {
        self.plan_address(&Address::new(NAME, resource.clone()))
    }

    fn plan_address(&mut self, address: &Address) -> Result<Plan, PackError> {
        for _ in 0..2 {
            match plan(&self.title, address, &self.known)? {
                Planned::Ready(plan) => return Ok(plan),
                Planned::Needs(needs) => needs.fragments.iter().for_each(|range| self.learn(range)),
                Planned::NeedsCuts(_) => panic!("{address:?} is planned clear"),
                Planned::NeedsMedia(first) => {
                    let media: Vec<u8> = first.parts().iter().flat_map(|part| self.part(part)).collect();
                    return first.plan(&media);
                }
            }
        }
        panic!("the plan of {address:?} needs fragments that it was given");
    }

    /// Reads the samples of a fragment.
    fn learn(&mut self, source: &SourceRange) {
        let index = self.title.objects()[source.object].clone();
        let object = &self.objects[source.object];
        let mut reader = FragmentReader::new(index, source.range.clone());
        let mut offset = source.range.start;
        let mut bytes = Bytes::new();
        loop {
            match reader.feed(offset, &bytes).expect("a fragment") {
                FragmentStep::Done(samples) => {
                    self.known.0.insert((source.object, source.range.start), Arc::new(samples));
                    return;
                }
                FragmentStep::Need { from, len } => {
                    let at = |n: u64| usize::try_from(n).expect("in memory").min(object.len());
                    offset = from;
                    bytes = object.slice(at(from)..at(from + len));
                }
            }
        }
    }

    /// Returns the response to a request for a resource of the whole title.
    ///
    /// # Errors
    /// The error of planning.
    pub fn get(&mut self, resource: &Resource) -> Result<Response, PackError> {
        self.get_address(&Address::new(NAME, resource.clone()))
    }

    /// Returns the response to a request for an address.
    ///
    /// # Errors
    /// The error of planning.
    pub fn get_address(&mut self, address: &Address) -> Result<Response, PackError> {
        let mut plan = self.plan_address(address)?;
        let mut bytes = BytesMut::new();
        for part in &plan.parts {
            let input = self.part(part);
            match &mut plan.transform {
                Some(transform) => transform.write(&input, &mut bytes),
                None => bytes.extend_from_slice(&input),
            }
        }
        if let Some(transform) = &mut plan.transform {
            transform.finish(&mut bytes);
        }
        assert_eq!(bytes.len() as u64, plan.content_length, "length of {address:?}");
        Ok(Response {
            bytes: bytes.to_vec(),
            content_length: plan.content_length,
            content_type: plan.content_type,
            digest: plan.digest,
            class: plan.class,
        })
    }

    /// Returns the bytes of a part.
    pub fn part(&self, part: &Part) -> Bytes {
        match part {
            Part::Inline(bytes) => bytes.clone(),
            Part::Source(source) => {
                let at = |n: u64| usize::try_from(n).expect("in memory");
                self.objects[source.object].slice(at(source.range.start)..at(source.range.end))
            }
        }
    }

    /// Returns a manifest as text.
    pub fn text(&mut self, resource: &Resource) -> String {
        String::from_utf8(self.get(resource).expect("a manifest").bytes).expect("text")
    }

    /// Returns a whole CMAF track: the init segment, and every media segment.
    pub fn cmaf(&mut self, name: &TrackName) -> (Vec<u8>, Vec<Vec<u8>>) {
        let init = self.get(&Resource::DashInit(name.clone())).expect("an init segment").bytes;
        let segments = (1..=self.segment_count(name))
            .map(|n| self.get(&Resource::DashSegment(name.clone(), n)).expect("a segment").bytes)
            .collect();
        (init, segments)
    }
}
