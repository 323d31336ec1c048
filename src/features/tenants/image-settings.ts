/** The setting `objects.images` of a workspace: the sizes and formats to which its images are converted when they are read. */

import Type, { type Static } from 'typebox'
import { component } from '../../core/components/component.ts'
import { Problem } from '../../core/problem.ts'
import { IMAGE_FORMATS } from '../../infra/image-converter.ts'
import { INFRA_LIMITS } from '../../infra/limits.ts'
import { OBJECT_LIMITS } from '../objects/limits.ts'

const { sideMax } = INFRA_LIMITS.images

const FIELDS = {
  sizes: Type.Array(Type.String({ pattern: '^(?:[1-9][0-9]{0,3})?(?:x[1-9][0-9]{0,3})?$', minLength: 1 }), {
    maxItems: OBJECT_LIMITS.imageSizesMax,
    uniqueItems: true,
    description: `Sizes in pixels: \`320\` is a width, \`x240\` a height, \`320x240\` both; a side has at most ${sideMax}. Without any, no image is converted.`,
  }),
  formats: Type.Array(Type.Enum([...IMAGE_FORMATS]), {
    minItems: 1,
    uniqueItems: true,
    description:
      'Formats of converted images; an image in another one gets the first. Default: jpeg, png, webp.',
  }),
}

/** In requests of admins; absent members do not change. */
export const ImageSettingsInput = Type.Partial(Type.Object(FIELDS), { additionalProperties: false })
export const ImageSettings = component('ImageSettings', Type.Object(FIELDS), {
  sizes: ['320', '1280x720'],
  formats: ['jpeg', 'webp'],
})
export type ImageSettings = Static<typeof ImageSettings>

/** Closed by default: each size is work for whoever may read an image. */
export const IMAGE_DEFAULTS: ImageSettings = { sizes: [], formats: ['jpeg', 'png', 'webp'] }

/** @throws Problem `validation_failed` with a pointer to each size that is too large */
export function checkSizes({ sizes = [] }: Static<typeof ImageSettingsInput>): void {
  const errors = sizes.flatMap((size, index) => {
    const isTooLarge = size.split('x').some((side) => Number(side) > sideMax)
    const pointer = `/objects/images/sizes/${index}`
    const detail = `A side has at most ${sideMax} pixels.`
    return isTooLarge ? [{ in: 'body', name: 'objects', pointer, detail } as const] : []
  })
  const [first] = errors
  if (first !== undefined)
    throw new Problem('validation_failed', { detail: `${first.pointer}: ${first.detail}`, errors })
}
