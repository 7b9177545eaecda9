//! Writes segments into files, from front to back.

use super::{
    Packing,
    choice::{Content, Job},
};
use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use latemux_origin::SegmentBytes;
use latemux_packager::{
    Resource,
    carry::Protocol,
    pack::{Fragment, cmaf, ismv::IsmvFile},
    sizes::segment_sizes,
};
use latemux_storage::write::Writer;

/// Number of segments planned at a time, before any is read.
const PLANNED: usize = 8;

/// Number of segments read at a time. While one is written, the next are fetched.
const OPENED: usize = 3;

/// A file that is planned but not written.
pub(super) enum File {
    /// A CMAF file, with its header and the plan of each fragment.
    Cmaf { track: usize, header: Bytes, fragments: Vec<Fragment> },
    /// An ismv file. `bytes` is an estimate of its size.
    Ismv { tracks: Vec<usize>, fragments: usize, bytes: u64 },
}

impl File {
    /// Returns the size in bytes, which is an estimate for an ismv file.
    pub(super) fn bytes(&self) -> u64 {
        match self {
            Self::Cmaf { header, fragments, .. } => {
                header.len() as u64 + fragments.iter().map(|f| f.bytes).sum::<u64>()
            }
            Self::Ismv { bytes, .. } => *bytes,
        }
    }

    pub(super) fn fragments(&self) -> usize {
        match self {
            Self::Cmaf { fragments, .. } => fragments.len(),
            Self::Ismv { fragments, .. } => *fragments,
        }
    }
}

impl Packing {
    /// Plans a file.
    pub(super) async fn prepare(&self, job: &Job) -> Result<File> {
        let title = &self.title.title;
        match &job.content {
            Content::Cmaf(track) => {
                let resources = self.cmaf(*track)?;
                let plan = |resource| async move {
                    let plan = self.origin.plan(&self.title, resource).await?;
                    anyhow::Ok(Fragment::of(&plan)?)
                };
                let fragments = stream::iter(resources).map(plan).buffered(PLANNED);
                let fragments: Vec<_> =
                    fragments.try_collect().await.with_context(|| self.title.base.clone())?;
                let init = self.init(*track).await?;
                let header = cmaf::header(title, *track, &init, &fragments);
                let header = header.with_context(|| job.output.clone())?;
                Ok(File::Cmaf { track: *track, header, fragments })
            }
            Content::Ismv(_) if self.title.protection()?.is_some() => {
                bail!("{}: an encrypted title cannot be written as ismv", self.title.base)
            }
            Content::Ismv(tracks) => {
                let sizes = tracks.iter().flat_map(|&track| segment_sizes(title, track, Protocol::Smooth));
                let (fragments, bytes) =
                    sizes.fold((0, 0), |(n, bytes): (usize, u64), size| (n + 1, bytes + size));
                Ok(File::Ismv { tracks: tracks.clone(), fragments, bytes })
            }
        }
    }

    /// Writes a file and returns its size in bytes.
    pub(super) async fn write(&self, file: File, writer: &mut Writer) -> Result<u64> {
        match file {
            File::Cmaf { track, header, fragments } => {
                self.write_cmaf(track, header, &fragments, writer).await
            }
            File::Ismv { tracks, .. } => self.write_ismv(&tracks, writer).await,
        }
    }

    async fn write_cmaf(
        &self,
        track: usize,
        header: Bytes,
        fragments: &[Fragment],
        writer: &mut Writer,
    ) -> Result<u64> {
        let mut written = self.put(header, writer).await?;
        let mut segments =
            stream::iter(self.cmaf(track)?).map(|resource| self.open(resource)).buffered(OPENED);
        for planned in fragments {
            let (fragment, bytes) =
                segments.next().await.context("there are fewer segments than planned")??;
            ensure!(fragment == *planned, "{}: a segment differs from its plan", self.title.base);
            written += self.copy(fragment, bytes, writer).await?;
        }
        Ok(written)
    }

    async fn write_ismv(&self, tracks: &[usize], writer: &mut Writer) -> Result<u64> {
        let layout = IsmvFile::new(&self.title.title, tracks)?;
        let mut written = self.put(layout.header(), writer).await?;
        let mut entries = Vec::new();
        let open = |request: latemux_packager::pack::ismv::FragmentRequest| async move {
            let (fragment, bytes) = self.open(request.resource).await?;
            anyhow::Ok((request.track, fragment, bytes))
        };
        let mut segments = stream::iter(layout.fragments()).map(open).buffered(OPENED);
        while let Some((track, fragment, bytes)) = segments.try_next().await? {
            entries.push((track, written, fragment));
            written += self.copy(fragment, bytes, writer).await?;
        }
        written += self.put(layout.index(&entries), writer).await?;
        Ok(written)
    }

    /// Returns the init segment of a track.
    async fn init(&self, track: usize) -> Result<Bytes> {
        let track = self.title.title.tracks().get(track).context("the title has no such track")?;
        let plan = self.origin.plan(&self.title, Resource::DashInit(track.name.clone())).await?;
        let mut bytes = self.origin.read(&self.title, plan).await?;
        bytes.next().await?.context("an init segment is empty")
    }

    /// Returns all media segments of a track.
    fn cmaf(&self, track: usize) -> Result<impl Iterator<Item = Resource> + use<>> {
        let track = self.title.title.tracks().get(track).context("the title has no such track")?;
        let name = track.name.clone();
        Ok(track.numbers().map(move |number| Resource::DashSegment(name.clone(), number + 1)))
    }

    /// Starts to read a segment.
    async fn open(&self, resource: Resource) -> Result<(Fragment, SegmentBytes)> {
        let plan = self.origin.plan(&self.title, resource).await?;
        let fragment = Fragment::of(&plan)?;
        Ok((fragment, self.origin.read(&self.title, plan).await?))
    }

    async fn copy(&self, fragment: Fragment, mut bytes: SegmentBytes, writer: &mut Writer) -> Result<u64> {
        let mut written = 0;
        while let Some(frame) = bytes.next().await? {
            written += self.put(frame, writer).await?;
        }
        ensure!(written == fragment.bytes, "{}: a segment ended early", self.title.base);
        Ok(written)
    }

    async fn put(&self, bytes: Bytes, writer: &mut Writer) -> Result<u64> {
        let len = bytes.len() as u64;
        writer.write(bytes).await?;
        self.bar.inc(len);
        Ok(len)
    }
}
