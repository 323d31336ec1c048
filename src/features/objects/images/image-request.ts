/** Requests for an object as an image of another size or format: their parameters, and what the workspace allows of them. */

import Type, { type Static } from 'typebox'
import type { WorkspaceScope } from '../../../access/scope.ts'
import { inputInvalid } from '../../../core/operation.ts'
import { Problem } from '../../../core/problem.ts'
import {
  type Conversion,
  IMAGE_FITS,
  IMAGE_FORMATS,
  type ImageFormat,
} from '../../../infra/image-converter.ts'
import type { ImageSettings } from '../../tenants/image-settings.ts'
import { readPublicAccess } from '../../tenants/public-access.ts'
import type { CatalogueEntry } from '../catalogue.ts'
import { convertedImagesOf } from './converted-images.ts'

const Side = (side: string) =>
  Type.Optional(
    Type.Integer({
      minimum: 1,
      description: `Converts an image to this ${side} in pixels, if the setting \`objects.images\` of the workspace lists the size. Nothing is enlarged.`,
    }),
  )

/** Input fields of operations that read an object. */
export const IMAGE_FIELDS = {
  width: Side('width'),
  height: Side('height'),
  fit: Type.Optional(
    Type.Enum([...IMAGE_FITS], {
      description:
        'Way to fill `width` and `height`: `cover` cuts off what is too much, `contain` adds margins, `fill` distorts; with `inside` the whole image is at most of that size, with `outside` at least. Default: `cover`.',
    }),
  ),
  format: Type.Optional(
    Type.Enum(['auto', ...IMAGE_FORMATS], {
      description:
        'Format of a converted image. `auto`: AVIF or WebP if the header `Accept` names them and the workspace allows them. Default: that of the object.',
    }),
  ),
  // Of any form and length, since requests for other objects have it as well.
  accept: Type.Optional(Type.String()),
}
const ImageInput = Type.Object(IMAGE_FIELDS)
export type ImageInput = Static<typeof ImageInput>

/**
 * What a request makes of an object that its caller may read.
 * @returns puts the image in the place of the object, and throws `image_not_allowed` or as {@link ConvertedImages.find}; undefined if
 *   the request is for the object as it is
 * @throws Problem `validation_failed` if it names no size
 */
export function imageOf(
  scope: WorkspaceScope,
  input: ImageInput,
): ((entry: CatalogueEntry) => Promise<CatalogueEntry>) | undefined {
  const { width, height, fit, format } = input
  if ([width, height, fit, format].every((one) => one === undefined)) return undefined
  requireSize(input)
  return async (entry) => {
    const { images: settings } = await readPublicAccess(scope)
    requireAllowed(settings, input)
    const formats = format === undefined || format === 'auto' ? formatsFor(input, settings) : [format]
    const conversion: Conversion = { width, height, fit: fit ?? 'cover', formats }
    const { blob, size, etag, contentType } = await convertedImagesOf(scope).find(scope, entry, conversion)
    const { 'content-encoding': _, ...kept } = entry.headers
    const vary = format === 'auto' ? { vary: 'Accept' } : {}
    return { ...entry, blob, size, etag, headers: { ...kept, 'content-type': contentType, ...vary } }
  }
}

function requireSize({ width, height, fit }: ImageInput): void {
  const fault = (name: string, detail: string) => inputInvalid([{ in: 'query', name, pointer: '', detail }])
  if (width === undefined && height === undefined)
    throw fault('width', 'An image is converted to a size. Send width, height, or both.')
  if (fit !== undefined && (width === undefined || height === undefined))
    throw fault('fit', 'It says how an image fills width and height. Send both, or leave it out.')
}

function requireAllowed({ sizes, formats }: ImageSettings, { width, height, format }: ImageInput): void {
  if (sizes.length === 0)
    throw new Problem('image_not_allowed', {
      detail: 'The workspace converts no images: its setting objects.images.sizes is empty.',
    })
  const size = `${width ?? ''}${height === undefined ? '' : `x${height}`}`
  const allowed = { allowed_sizes: sizes, allowed_formats: formats }
  if (!sizes.includes(size))
    throw new Problem('image_not_allowed', {
      detail: `The size ${size} is not allowed. The setting objects.images of the workspace allows ${sizes.join(', ')} (a width, x and a height, or both).`,
      members: allowed,
    })
  if (format !== undefined && format !== 'auto' && !formats.includes(format))
    throw new Problem('image_not_allowed', {
      detail: `The format ${format} is not allowed. The setting objects.images of the workspace allows ${formats.join(', ')}.`,
      members: allowed,
    })
}

/** Smaller ones first. */
const NEGOTIATED = ['avif', 'webp'] as const

/** The best format that the client names and the workspace allows; else all that it allows, of which the image keeps its own. */
function formatsFor({ format, accept = '' }: ImageInput, { formats }: ImageSettings): readonly ImageFormat[] {
  const named = format === 'auto' ? NEGOTIATED.filter((one) => accepts(accept, `image/${one}`)) : []
  const best = named.find((one) => formats.includes(one))
  return best === undefined ? formats : [best]
}

/** True if `Accept` names the type itself, with a weight above 0 (RFC 9110 §12.5.1). Wildcards tell nothing: all browsers send them. */
function accepts(accept: string, type: string): boolean {
  return accept.split(',').some((range) => {
    const [name = '', ...parameters] = range.split(';').map((part) => part.trim().toLowerCase())
    return name === type && !parameters.some((parameter) => /^q=0(?:\.0*)?$/.test(parameter))
  })
}
