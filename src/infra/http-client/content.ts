/** Says if the content of a response is JSON or text, and decodes it. */

import { isUtf8 } from 'node:buffer'
import type { Inbound } from './egress.ts'

const JSON_TYPE = /^[^;]*[/+]json\s*(;|$)/i
const TEXT_TYPE =
  /^\s*(text\/|application\/(xml|yaml|x-yaml|javascript|x-www-form-urlencoded|graphql|sql)\b|[^;]*\+(xml|yaml)\s*(;|$))/i

type Content = Pick<Inbound, 'headers' | 'body'>

const typeOf = ({ headers }: Content) => headers['content-type'] ?? ''

export const isJson = (content: Content): boolean => JSON_TYPE.test(typeOf(content))

/** Without a type, UTF-8 counts as text. JSON does not count. */
export const isText = (content: Content): boolean =>
  typeOf(content) === '' ? isUtf8(content.body) : TEXT_TYPE.test(typeOf(content))

/** The body as text in the charset of its type. */
export function decodeText(content: Content): string {
  const charset = /;\s*charset="?([\w-]{1,40})/i.exec(typeOf(content))?.[1] ?? 'utf-8'
  try {
    return new TextDecoder(charset).decode(content.body)
  } catch {
    return content.body.toString('utf8')
  }
}
