/* Encodes scalable AVC (SVC) with the openh264 library, and decodes it. Test media only.
 *
 * openh264 encode SPATIAL TEMPORAL FRAMES  writes a byte stream (ISO/IEC 14496-10 Annex B) with an
 *                                          access unit delimiter before each frame. The highest of
 *                                          SPATIAL layers has 320x192 pixels, each lower one half
 *                                          of that. Every 48th frame is an IDR picture.
 * openh264 decode                          reads such a stream and prints a line for each access
 *                                          unit: "WIDTH HEIGHT HASH" of the highest layer, or
 *                                          "none" if it cannot be decoded.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wels/codec_api.h>

enum { IDR_PERIOD = 48, WIDTH = 320, HEIGHT = 192, LUMA = WIDTH * HEIGHT, MAX_STREAM = 1 << 26 };
static const unsigned char DELIMITER[] = {0, 0, 0, 1, 9, 0xf0};

static int fail(const char *what) {
  fprintf(stderr, "openh264: %s\n", what);
  return 1;
}

/* Draws moving stripes and squares. */
static void draw(unsigned char *picture, int frame) {
  for (int y = 0; y < HEIGHT; y++)
    for (int x = 0; x < WIDTH; x++)
      picture[y * WIDTH + x] = (unsigned char)(x * 2 + y + frame * 3 + ((x / 16 + y / 16 + frame / 5) % 7) * 9);
  memset(picture + LUMA, 100 + frame % 50, LUMA / 4);
  memset(picture + LUMA + LUMA / 4, 180 - frame % 50, LUMA / 4);
}

static void configure(SEncParamExt *param, int spatial, int temporal) {
  param->iPicWidth = WIDTH;
  param->iPicHeight = HEIGHT;
  param->fMaxFrameRate = 25;
  param->iTargetBitrate = 800000;
  param->iRCMode = RC_OFF_MODE;
  param->iTemporalLayerNum = temporal;
  param->iSpatialLayerNum = spatial;
  param->uiIntraPeriod = IDR_PERIOD;
  param->iMultipleThreadIdc = 1;
  param->bPrefixNalAddingCtrl = true;
  param->bSimulcastAVC = false;
  param->eSpsPpsIdStrategy = CONSTANT_ID;
  param->bEnableFrameSkip = false;
  param->bEnableSceneChangeDetect = false;
  for (int i = 0; i < spatial; i++) {
    SSpatialLayerConfig *layer = &param->sSpatialLayers[i];
    layer->iVideoWidth = WIDTH >> (spatial - 1 - i);
    layer->iVideoHeight = HEIGHT >> (spatial - 1 - i);
    layer->fFrameRate = 25;
    layer->iSpatialBitrate = 400000;
    layer->iDLayerQp = 28;
    layer->uiProfileIdc = i ? PRO_SCALABLE_BASELINE : PRO_BASELINE;
  }
}

static int encode(int spatial, int temporal, int frames) {
  static unsigned char picture[LUMA * 3 / 2];
  ISVCEncoder *encoder;
  SEncParamExt param;
  if (spatial < 1 || spatial > MAX_SPATIAL_LAYER_NUM || WelsCreateSVCEncoder(&encoder)) return fail("no encoder");
  (*encoder)->GetDefaultParams(encoder, &param);
  configure(&param, spatial, temporal);
  if ((*encoder)->InitializeExt(encoder, &param)) return fail("the encoder takes no such layers");
  for (int frame = 0; frame < frames; frame++) {
    draw(picture, frame);
    SSourcePicture source = {0};
    SFrameBSInfo coded = {0};
    source.iColorFormat = videoFormatI420;
    source.iPicWidth = WIDTH;
    source.iPicHeight = HEIGHT;
    source.uiTimeStamp = frame * 40;
    source.iStride[0] = WIDTH;
    source.iStride[1] = source.iStride[2] = WIDTH / 2;
    source.pData[0] = picture;
    source.pData[1] = picture + LUMA;
    source.pData[2] = picture + LUMA + LUMA / 4;
    if (frame % IDR_PERIOD == 0) (*encoder)->ForceIntraFrame(encoder, true);
    if ((*encoder)->EncodeFrame(encoder, &source, &coded)) return fail("a frame cannot be encoded");
    fwrite(DELIMITER, 1, sizeof DELIMITER, stdout);
    for (int i = 0; i < coded.iLayerNum; i++) {
      const SLayerBSInfo *layer = &coded.sLayerInfo[i];
      size_t size = 0;
      for (int n = 0; n < layer->iNalCount; n++) size += (size_t)layer->pNalLengthInByte[n];
      fwrite(layer->pBsBuf, 1, size, stdout);
    }
  }
  return fflush(stdout) ? fail("the stream cannot be written") : 0;
}

/* Prints a decoded picture by its FNV-1a hash. */
static void print_picture(unsigned char *const planes[3], const SSysMEMBuffer *buffer) {
  uint64_t hash = 14695981039346656037u;
  for (int plane = 0; plane < 3; plane++) {
    int chroma = plane > 0;
    for (int y = 0; y < buffer->iHeight >> chroma; y++)
      for (int x = 0; x < buffer->iWidth >> chroma; x++)
        hash = (hash ^ planes[plane][y * buffer->iStride[chroma] + x]) * 1099511628211u;
  }
  printf("%d %d %016llx\n", buffer->iWidth, buffer->iHeight, (unsigned long long)hash);
}

static int decode(void) {
  unsigned char *stream = malloc(MAX_STREAM);
  if (!stream) return fail("no memory");
  size_t size = fread(stream, 1, MAX_STREAM, stdin);
  ISVCDecoder *decoder;
  SDecodingParam param = {0};
  if (WelsCreateDecoder(&decoder)) return fail("no decoder");
  param.uiTargetDqLayer = UINT8_MAX;
  param.eEcActiveIdc = ERROR_CON_DISABLE;
  param.sVideoProperty.eVideoBsType = VIDEO_BITSTREAM_SVC;
  if ((*decoder)->Initialize(decoder, &param)) return fail("the decoder cannot be set up");
  const size_t start = sizeof DELIMITER - 1;
  for (size_t at = 0; at < size;) {
    size_t end = at + start;
    while (end + start <= size && memcmp(stream + end, DELIMITER, start)) end++;
    if (end + start > size) end = size;
    unsigned char *planes[3] = {0};
    SBufferInfo info = {0};
    (*decoder)->DecodeFrameNoDelay(decoder, stream + at, (int)(end - at), planes, &info);
    if (info.iBufferStatus == 1) print_picture(planes, &info.UsrData.sSystemBuffer);
    else puts("none");
    at = end;
  }
  return 0;
}

int main(int argc, char **argv) {
  if (argc == 5 && !strcmp(argv[1], "encode")) return encode(atoi(argv[2]), atoi(argv[3]), atoi(argv[4]));
  if (argc == 2 && !strcmp(argv[1], "decode")) return decode();
  return fail("encode SPATIAL TEMPORAL FRAMES, or decode");
}
