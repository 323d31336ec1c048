/**
 * Converts images in libuv's thread pool, a few at a time, with libvips, which is loaded at the first conversion. Only the decoders of
 * `DECODERS` are open: that of SVG, for one, reads files.
 */

import type { Sharp } from 'sharp'
import { Problem } from '../core/problem.ts'
import { KeyedSemaphore } from './keyed-semaphore.ts'
import { INFRA_LIMITS } from './limits.ts'

const { images: limits } = INFRA_LIMITS

/** Formats of converted images. */
export const IMAGE_FORMATS = ['jpeg', 'png', 'webp', 'avif'] as const
export type ImageFormat = (typeof IMAGE_FORMATS)[number]

/** How an image fills a size of both width and height; the words are those of CSS `object-fit`, and of sharp. */
export const IMAGE_FITS = ['cover', 'contain', 'fill', 'inside', 'outside'] as const
type ImageFit = (typeof IMAGE_FITS)[number]

/** What becomes of an image. Nothing is enlarged. */
export interface Conversion {
  /** In pixels; undefined: what the height gives. */
  readonly width: number | undefined
  /** In pixels; undefined: what the width gives. */
  readonly height: number | undefined
  /** Of no account unless there are both. */
  readonly fit: ImageFit
  /** The image keeps its own format if that is one of these, and gets the first one otherwise. */
  readonly formats: readonly ImageFormat[]
}

export interface ConvertedImage {
  readonly bytes: Uint8Array
  readonly format: ImageFormat
}

export class ImageConverter {
  readonly #slots = new KeyedSemaphore(limits.ofTenantMax, limits.waitMs, limits.ofProcessMax)

  /** Conversions under way, and those that wait for one to end. */
  get use(): { readonly running: number; readonly waiting: number } {
    return { running: this.#slots.held, waiting: this.#slots.waiting }
  }

  /**
   * Turns an image upright, scales it and encodes it anew, without its metadata. Of an animated image the first picture is used.
   * @param load reads the image; called when its turn has come, so that images that wait take no memory
   * @throws Problem `image_unreadable`, `image_too_large`; `overloaded` if too many of the tenant wait, or for too long
   */
  async convert(
    tenant: string,
    load: () => Promise<Uint8Array>,
    conversion: Conversion,
  ): Promise<ConvertedImage> {
    const { waitingMax } = limits
    const release = await this.#slots.acquire(tenant, 'Too many images are converted at once.', {
      waitingMax,
    })
    try {
      return await convert(await load(), conversion)
    } finally {
      release()
    }
  }
}

/** All of them read what they get in memory, and nothing else. libvips decides by the bytes which one it uses. */
const DECODERS = ['Jpeg', 'Png', 'Webp', 'Nsgif', 'Heif'].map((name) => `VipsForeignLoad${name}Buffer`)

let library: Promise<typeof import('sharp').default> | undefined

async function openLibrary() {
  const { default: sharp } = await import('sharp').catch((cause: unknown) => {
    const detail = 'This installation cannot convert images: the package sharp does not work on its machine.'
    throw new Problem('dependency_unavailable', { detail, cause })
  })
  sharp.block({ operation: ['VipsForeignLoad'] })
  sharp.unblock({ operation: DECODERS })
  // A conversion takes one thread of the pool, so that their number bounds the CPU time.
  sharp.concurrency(1)
  sharp.cache(false)
  return sharp
}

async function convert(source: Uint8Array, conversion: Conversion): Promise<ConvertedImage> {
  library ??= openLibrary()
  const sharp = await library
  try {
    const image = sharp(source, { failOn: 'error', limitInputPixels: limits.pixelsMax })
    const { format: name, ...found } = await image.metadata()
    const own = name === 'heif' ? 'avif' : name
    requireBounded(own, found.autoOrient, conversion)
    const format = conversion.formats.find((one) => one === own) ?? conversion.formats[0] ?? 'png'
    const encoded = encode(image.autoOrient().resize(resizing(conversion, format)), format)
    return { bytes: await encoded.timeout({ seconds: limits.timeoutSeconds }).toBuffer(), format }
  } catch (error) {
    throw error instanceof Problem ? error : problemOf(error)
  }
}

const WHITE = { r: 255, g: 255, b: 255 }

/** A side that the request leaves open has a bound as well, since an image may be a thousand times as high as it is wide. */
function resizing({ width, height, fit }: Conversion, format: ImageFormat) {
  const size = { width: width ?? limits.sideMax, height: height ?? limits.sideMax }
  const isOpen = width === undefined || height === undefined
  return {
    ...size,
    fit: isOpen ? ('inside' as const) : fit,
    // Of margins. JPEG has no transparency, and would show black.
    background: format === 'jpeg' ? WHITE : { ...WHITE, alpha: 0 },
    withoutEnlargement: true,
  }
}

/** Of 0 to 9. At the 4 of sharp, a large image takes ten times as long, and no timeout interrupts the encoder. */
const AVIF_EFFORT = 2

function encode(image: Sharp, format: ImageFormat): Sharp {
  if (format === 'avif') return image.avif({ effort: AVIF_EFFORT })
  return format === 'jpeg' ? image.flatten({ background: WHITE }).jpeg() : image.toFormat(format)
}

interface Sides {
  readonly width: number
  readonly height: number
}

/** Bounds what libvips does not bound, or cannot interrupt: decoding and encoding of AVIF, which is in memory as a whole. */
function requireBounded(own: string, source: Sides, { width, height, fit }: Conversion): void {
  if (own === 'avif' && source.width * source.height > limits.avifPixelsMax)
    throw tooManyPixels(limits.avifPixelsMax)
  if (fit !== 'outside' || width === undefined || height === undefined) return
  const scale = Math.min(1, Math.max(width / source.width, height / source.height))
  const longer = Math.round(Math.max(source.width, source.height) * scale)
  if (longer <= limits.sideMax) return
  throw new Problem('image_too_large', {
    detail: `With \`fit=outside\` the image would be ${longer} pixels long; a side has at most ${limits.sideMax}.`,
    hint: 'Send `fit=inside` or `fit=cover`.',
  })
}

const tooManyPixels = (max: number) =>
  new Problem('image_too_large', {
    detail: `The image has more pixels than are converted: at most ${max}.`,
    members: { limit_pixels: max },
  })

/** The texts are those of sharp; what it says of an image itself is for the log. */
function problemOf(error: unknown): Problem {
  const text = error instanceof Error ? error.message : ''
  if (text.includes('exceeds pixel limit')) return tooManyPixels(limits.pixelsMax)
  if (text.startsWith('timeout'))
    return new Problem('image_too_large', {
      detail: `The image takes longer to convert than ${limits.timeoutSeconds} seconds.`,
      cause: error,
    })
  return new Problem('image_unreadable', { cause: error })
}
