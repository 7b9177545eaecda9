#!/usr/bin/env bash
# Makes the sample library from ffmpeg's own test sources, which nobody has rights in. The files are
# committed; run this script (`make samples`) only to change them. They were made with ffmpeg 5.1 of
# Debian 12. One encoder thread and the bitexact flags give the same bytes each time with the same
# build.
set -euo pipefail
cd "$(dirname "$0")"

out=${1:-library}
font=${FONT:-/usr/share/fonts/truetype/dejavu/DejaVuSansMono-Bold.ttf}
ff=(ffmpeg -nostdin -hide_banner -loglevel error -y)
exact=(-map_metadata -1 -fflags +bitexact -flags:v +bitexact -flags:a +bitexact -threads 1)

[ -r "$font" ] || { echo "make.sh: no font at $font (apt-get install fonts-dejavu-core, or set FONT)" >&2; exit 1; }

# test_card SOURCE NAME WIDTH HEIGHT SECONDS: prints a filter graph that burns in the name of the
# rendition and a running timecode, so that a switch of rendition and a seek are visible.
test_card() {
  local source=$1 name=$2 width=$3 height=$4 seconds=$5
  printf '%s=size=%sx%s:rate=25:duration=%s,format=yuv420p,' "$source" "$width" "$height" "$seconds"
  printf 'drawtext=fontfile=%s:fontsize=h/11:fontcolor=white:box=1:boxcolor=black@0.75:boxborderw=6:x=(w-tw)/2:y=h*0.70:' "$font"
  printf "text='%s %sp':" "$name" "$height"
  printf 'expansion=none,drawtext=fontfile=%s:fontsize=h/9:fontcolor=yellow:box=1:boxcolor=black@0.75:boxborderw=6:' "$font"
  printf "x=(w-tw)/2:y=h*0.82:timecode='00\\:00\\:00\\:00':rate=25"
}

# tone HZ SECONDS: prints the source of a steady tone with a short blip each second.
tone() { printf 'sine=frequency=%s:beep_factor=3:sample_rate=48000:duration=%s,aformat=channel_layouts=stereo' "$1" "$2"; }

# Closed GOPs of exactly two seconds, so that all renditions have the same segment grid.
avc() { printf '%s\n' -c:v libx264 -preset veryslow -profile:v "$1" -b:v "$2" -maxrate "$2" -bufsize "$3" -g 50 -bf 2 \
  -x264-params keyint=50:min-keyint=50:scenecut=0:open-gop=0:b-adapt=0:b-pyramid=none:cpu-independent=1:threads=1; }
aac() { printf '%s\n' -c:a aac -b:a "$1" -ac 2; }

rm -rf "$out"
mkdir -p "$out/harbour" "$out/pier"

# harbour/: one title in a folder: three renditions and two languages, each in its own progressive
# file.
seconds=48
video() { # HEIGHT WIDTH PROFILE BITRATE BUFFER
  mapfile -t codec < <(avc "$3" "$4" "$5")
  "${ff[@]}" -f lavfi -i "$(test_card testsrc2 harbour "$2" "$1" "$seconds")" "${codec[@]}" "${exact[@]}" \
    -movflags +faststart "$out/harbour/video-$1p.mp4"
}
audio() { # LANGUAGE HZ
  mapfile -t codec < <(aac 48k)
  "${ff[@]}" -f lavfi -i "$(tone "$2" "$seconds")" "${codec[@]}" "${exact[@]}" -metadata:s:a:0 "language=$1" \
    -movflags +faststart "$out/harbour/audio-$1.mp4"
}
video 360 640 high 150k 300k
video 234 416 main 80k 160k
video 180 320 baseline 44k 88k
audio eng 440
audio fra 660

# lighthouse.mp4: audio and video interleaved in one file, the moov at its end.
mapfile -t v < <(avc high 80k 160k); mapfile -t a < <(aac 40k)
"${ff[@]}" -f lavfi -i "$(test_card smptehdbars lighthouse 416 234 24)" -f lavfi -i "$(tone 520 24)" \
  -map 0:v -map 1:a "${v[@]}" "${a[@]}" "${exact[@]}" -metadata:s:a:0 language=eng "$out/lighthouse.mp4"

# ferry.mp4: one fragmented file with a fragment at each sync sample and one sidx for each track.
# Composition offsets are signed, so that video starts at 0 without an edit list.
mapfile -t v < <(avc main 90k 180k)
"${ff[@]}" -f lavfi -i "$(test_card testsrc2 ferry 416 234 24)" -f lavfi -i "$(tone 350 24)" \
  -map 0:v -map 1:a "${v[@]}" "${a[@]}" "${exact[@]}" -metadata:s:a:0 language=eng \
  -movflags +frag_keyframe+empty_moov+default_base_moof+negative_cts_offsets+global_sidx "$out/ferry.mp4"

# buoy.mp4: HEVC, which only some players decode. TS and CMAF both carry it.
"${ff[@]}" -f lavfi -i "$(test_card testsrc2 buoy 320 180 12)" -f lavfi -i "$(tone 300 12)" -map 0:v -map 1:a \
  -c:v libx265 -preset slow -b:v 60k -tag:v hvc1 \
  -x265-params keyint=50:min-keyint=50:scenecut=0:open-gop=0:bframes=2:frame-threads=1:pools=none:log-level=error \
  "${a[@]}" "${exact[@]}" -metadata:s:a:0 language=eng -movflags +faststart "$out/buoy.mp4"

# pier/: a folder with thumbnails. Each of the two sheets has 4 × 3 pictures, one for every 2 s.
mapfile -t v < <(avc main 60k 120k)
"${ff[@]}" -f lavfi -i "$(test_card testsrc2 pier 416 234 40)" -f lavfi -i "$(tone 410 40)" \
  -map 0:v -map 1:a "${v[@]}" "${a[@]}" "${exact[@]}" -metadata:s:a:0 language=eng -movflags +faststart "$out/pier/film.mp4"
"${ff[@]}" -i "$out/pier/film.mp4" -map 0:v -vf fps=1/2:start_time=0:round=up,scale=160:-2,tile=4x3 \
  -c:v mjpeg -q:v 8 -pix_fmt yuvj420p "${exact[@]}" "$out/pier/film.thumbs-4x3.mp4"

du -ab "$out" | sort -k2
