/** Content of MCP: text, images, audio, resources (specification, "Tool Result"). A function may return it itself. */

import Type, { type Static } from 'typebox'
import { Compile } from 'typebox/compile'

const Base64 = Type.String({ pattern: '^[A-Za-z0-9+/]*={0,2}$' })
const MIME_TYPE = '^[a-z]+/[A-Za-z0-9.+-]+$'
const MIME_TYPE_CHARS_MAX = 100
const MimeType = Type.String({ pattern: MIME_TYPE, maxLength: MIME_TYPE_CHARS_MAX })
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
      size: Type.Optional(Type.Integer({ minimum: 0, description: 'Size in bytes.' })),
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

/** The result as in MCP. The output is `structured_content`, or the text of `content`, or both. */
export interface ToolResult {
  readonly content: Content[]
  readonly structured_content?: Record<string, unknown>
  readonly is_error: boolean
  /** Of the problem, in an error. */
  readonly code?: string
}

const ContentResult = Type.Object(
  { content: Type.Array(Content, { minItems: 1, maxItems: 50 }), isError: Type.Optional(Type.Boolean()) },
  { additionalProperties: false },
)
const CONTENT_RESULT = Compile(ContentResult)

/** The output as content, if it has that form and nothing else. */
export function contentOf(output: unknown): Static<typeof ContentResult> | undefined {
  return CONTENT_RESULT.Check(output) ? output : undefined
}

/** The media type of a `Content-Type`, without parameters; `application/octet-stream` if it has another form. */
export function mimeTypeOf(contentType: string): string {
  const [type = ''] = contentType.toLowerCase().split(';')
  const mimeType = type.trim()
  const isValid = mimeType.length <= MIME_TYPE_CHARS_MAX && new RegExp(MIME_TYPE).test(mimeType)
  return isValid ? mimeType : 'application/octet-stream'
}
