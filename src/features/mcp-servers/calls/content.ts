/** Content of MCP that a function returns itself: text, images, audio, resources (specification, "Tool Result"). */

import Type, { type Static } from 'typebox'
import { Compile } from 'typebox/compile'

const Base64 = Type.String({ pattern: '^[A-Za-z0-9+/]*={0,2}$' })
const MimeType = Type.String({ pattern: '^[a-z]+/[A-Za-z0-9.+-]+$', maxLength: 100 })
/** In a prompt, an argument may stand for it. */
const Uri = Type.String({ pattern: '^([a-z][a-z0-9+.-]*:|[{][{])', maxLength: 2_000 })

export const Content = Type.Union([
  Type.Object({ type: Type.Literal('text'), text: Type.String() }, { additionalProperties: false }),
  Type.Object(
    { type: Type.Union([Type.Literal('image'), Type.Literal('audio')]), data: Base64, mimeType: MimeType },
    { additionalProperties: false },
  ),
  Type.Object(
    {
      type: Type.Literal('resource_link'),
      uri: Uri,
      name: Type.String(),
      description: Type.Optional(Type.String()),
      mimeType: Type.Optional(MimeType),
    },
    { additionalProperties: false },
  ),
  Type.Object(
    {
      type: Type.Literal('resource'),
      resource: Type.Union([
        Type.Object(
          { uri: Uri, mimeType: Type.Optional(MimeType), text: Type.String() },
          { additionalProperties: false },
        ),
        Type.Object(
          { uri: Uri, mimeType: Type.Optional(MimeType), blob: Base64 },
          { additionalProperties: false },
        ),
      ]),
    },
    { additionalProperties: false },
  ),
])
export type Content = Static<typeof Content>

const ContentResult = Type.Object(
  { content: Type.Array(Content, { minItems: 1, maxItems: 50 }), isError: Type.Optional(Type.Boolean()) },
  { additionalProperties: false },
)
const CONTENT_RESULT = Compile(ContentResult)

/** The output as content, if it has that form and nothing else. */
export function contentOf(output: unknown): Static<typeof ContentResult> | undefined {
  return CONTENT_RESULT.Check(output) ? output : undefined
}
