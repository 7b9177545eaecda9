#!/usr/bin/env bash
# Makes a folder of short titles that cover what latemux reads: the sample library, every layout of
# a file, every codec that this ffmpeg has an encoder for, and every kind of title. `make compare`
# serves them from two builds.
#
#   variants.sh FOLDER LATEMUX
#
# LATEMUX is a binary, which writes the index MP4s and server manifests.
#
# FOLDER/titles.txt lists the titles that the library does not: comma lists and the single files of
# folders. With LATEMUX_MEDIA set, the files in the folders of that folder are copied and become
# titles too.
set -euo pipefail
out=${1:?a folder}
latemux=$(realpath "${2:?a latemux binary}")
here=$(cd "$(dirname "$0")" && pwd)
media=${LATEMUX_MEDIA:+$(realpath "$LATEMUX_MEDIA")}

rm -rf "$out"
mkdir -p "$out"
cd "$out"
encoders=$(ffmpeg -hide_banner -encoders 2>/dev/null)

# make FILE ARGUMENT…: runs ffmpeg with the arguments, in a way that makes the same bytes each time.
make() {
  local file=$1
  shift
  ffmpeg -nostdin -hide_banner -loglevel error -y "$@" -map_metadata -1 -threads 1 \
    -fflags +bitexact -flags:v +bitexact -flags:a +bitexact "$file"
}
# Returns success if ffmpeg has an encoder, and says so if not.
has() { grep -qw "$1" <<<"$encoders" || { echo "variants.sh: no encoder $1, its titles are left out"; return 1; }; }

# Sources: video SIZE [SECONDS] [RATE], audio HZ [SECONDS]
video() { printf '%s\n' -f lavfi -i "testsrc2=size=$1:rate=${3:-25}:duration=${2:-12}"; }
audio() { printf '%s\n' -f lavfi -i "sine=frequency=$1:sample_rate=48000:duration=${2:-12}"; }
mapfile -t small < <(video 192x108)
mapfile -t tone < <(audio 440)
avc=(-c:v libx264 -preset ultrafast -bf 2 -b_strategy 0 -g 50 -keyint_min 50 -sc_threshold 0 -pix_fmt yuv420p -crf 32)
aac=(-c:a aac -b:a 64k -ac 2)
both=("${small[@]}" "${tone[@]}" "${avc[@]}" "${aac[@]}")
fragments=frag_keyframe+empty_moov+default_base_moof

cp -r "$here"/library/* .

# Layouts of one file.
make moov-last.mp4 "${both[@]}"
make moov-first.mp4 "${both[@]}" -movflags +faststart
make fragments-sidx.mp4 "${both[@]}" -movflags +$fragments+negative_cts_offsets+global_sidx+skip_trailer
make fragments-mfra.mp4 "${both[@]}" -movflags +$fragments
make fragments-neither.mp4 "${both[@]}" -movflags +$fragments+skip_trailer
make fragments-dash.mp4 "${both[@]}" -movflags +$fragments+dash
make fragments-separate.mp4 "${both[@]}" -movflags +$fragments+separate_moof
make fragments-short.mp4 "${both[@]}" -movflags +empty_moov+default_base_moof -frag_duration 500000
make fragments-smooth.ismv "${both[@]}" -movflags +frag_keyframe
make video-only.mp4 "${small[@]}" "${avc[@]}"
make audio-only.mp4 "${tone[@]}" "${aac[@]}"
mapfile -t ntsc < <(video 192x108 12 30000/1001)
make ntsc.mp4 "${ntsc[@]}" "${tone[@]}" "${avc[@]}" "${aac[@]}"
mapfile -t minute < <(video 96x54 60; audio 330 61)
make minute.mp4 "${minute[@]}" "${avc[@]}" "${aac[@]}"
make one-gop.mp4 "${both[@]}" -g 999 -keyint_min 999

# Edit lists: a start inside a GOP, and audio that begins later than video.
make edit-start.mp4 -ss 1.3 -i moov-last.mp4 -c copy
make edit-delay.mp4 -i moov-last.mp4 -itsoffset 0.7 -i moov-last.mp4 -map 0:v -map 1:a -c copy

# Folders: renditions, languages and text; renditions whose GOPs do not agree.
mkdir ladder unaligned
for size in 192x108 256x144 320x180; do
  mapfile -t source < <(video $size)
  make "ladder/video-${size#*x}p.mp4" "${source[@]}" "${avc[@]}"
done
for language in eng fra; do
  make "ladder/audio-$language.mp4" "${tone[@]}" "${aac[@]}" -metadata:s:a:0 language=$language
done
make unaligned/a.mp4 "${small[@]}" "${avc[@]}"
mapfile -t other < <(video 256x144)
make unaligned/b.mp4 "${other[@]}" "${avc[@]}" -g 70 -keyint_min 70
make unaligned/c.mp4 "${tone[@]}" "${aac[@]}" -movflags +$fragments -frag_duration 900000
make languages.mp4 "${small[@]}" "${tone[@]}" "${tone[@]}" -map 0 -map 1 -map 2 "${avc[@]}" "${aac[@]}" \
  -metadata:s:a:0 language=eng -metadata:s:a:1 language=deu

# Text: TTML by ffmpeg, WebVTT by hand.
mkdir ttml webvtt
printf '1\n00:00:00,500 --> 00:00:03,000\nOne\n\n2\n00:00:05,000 --> 00:00:09,000\nTwo\n' >ttml/text.srt
make ttml/text.mp4 -i ttml/text.srt -c:s ttml -metadata:s:s:0 language=eng
rm ttml/text.srt
node "$here/webvtt.mjs" webvtt/text.mp4 12
for folder in ttml webvtt; do cp moov-first.mp4 $folder/film.mp4; done

# Other codecs, each beside AVC or AAC.
gop=(-g 50 -keyint_min 50)
x265=keyint=50:min-keyint=50:scenecut=0:open-gop=0:bframes=2:frame-threads=1:pools=none:log-level=error
if has libx265; then
  make hevc.mp4 "${small[@]}" "${tone[@]}" -c:v libx265 -preset ultrafast -tag:v hvc1 -x265-params $x265 "${aac[@]}"
  make hevc-fragments.mp4 -i hevc.mp4 -c copy -tag:v hev1 -movflags +$fragments
fi
if has libsvtav1; then
  make av1.mp4 "${small[@]}" "${tone[@]}" -c:v libsvtav1 -preset 12 "${gop[@]}" "${aac[@]}"
elif has libaom-av1; then
  make av1.mp4 "${small[@]}" "${tone[@]}" -c:v libaom-av1 -cpu-used 8 "${gop[@]}" "${aac[@]}"
fi
has libvpx-vp9 && make vp9.mp4 "${small[@]}" "${tone[@]}" -c:v libvpx-vp9 -deadline realtime -b:v 100k "${gop[@]}" "${aac[@]}"
for codec in ac3 eac3 libopus flac libmp3lame dca; do
  has $codec && make "${codec#lib}.mp4" "${small[@]}" "${tone[@]}" "${avc[@]}" -c:a $codec -ac 2 -strict -2
done
make surround.mp4 "${small[@]}" "${tone[@]}" "${avc[@]}" -c:a aac -ac 6

# Titles that samples/compare.toml encrypts, and a film with subtitles beside it.
mkdir -p sealed/{counter,chains,segments} subtitles
for file in moov-first fragments-sidx hevc vp9 ac3 av1; do
  [ ! -f $file.mp4 ] || for folder in sealed/*; do cp $file.mp4 "$folder/"; done
done
for folder in sealed/*; do cp -r pier "$folder/"; done
cp moov-first.mp4 subtitles/film.mp4
printf '1\n00:00:00,500 --> 00:00:03,000\nOne\n' >subtitles/film.en.srt
printf 'WEBVTT\n\n00:00:01.000 --> 00:00:07.000 line:10%%\nUn <i>deux</i>\n' >subtitles/film.fr.vtt

# Comma lists, server manifests, index MP4s.
for height in 108p 144p; do cp "ladder/video-$height.mp4" "list_$height.mp4"; done
mkdir manifest indexed
cp ladder/*.mp4 manifest/
"$latemux" manifest -o manifest/title.ism manifest/*.mp4
cp moov-last.mp4 indexed/film.mp4
cp fragments-mfra.mp4 indexed/fragments.mp4
for file in film fragments; do "$latemux" index "indexed/$file.mp4" -o "indexed/$file.index.mp4"; done

if [ -n "$media" ]; then
  mkdir media
  for file in "$media"/*/*.*; do cp "$file" "media/$(basename "$(dirname "$file")")-$(basename "$file")"; done
fi
{
  printf '%s\n' list_,108p,144p,.mp4.urlset
  printf '%s\n' sealed/*/*.mp4 ladder/*.mp4 manifest/title.ism indexed/*.mp4 ttml/*.mp4 webvtt/*.mp4
  [ -z "$media" ] || printf '%s\n' media/*
} >titles.txt
echo "variants.sh: $(find . -type f | wc -l) files in $out"
