/** Names of tools, digests and the type of schemas. Worker threads import it, so it imports no feature, not even a type. */

import { hash } from 'node:crypto'
import { MCP_LIMITS } from './limits.ts'

export type JsonSchema = Readonly<Record<string, unknown>>

/** Pattern of names of tools and groups, and of the last parts of scopes: what every client accepts. */
export const TOOL_NAME_PATTERN = `^[A-Za-z0-9_-]{1,${MCP_LIMITS.toolNameCharsMax}}$`

/** A name with the characters and the length that every client accepts; a digest keeps truncated names distinct. */
export function toolName(text: string): string {
  const name = text.replaceAll(/[^A-Za-z0-9_-]/g, '_')
  const max = MCP_LIMITS.toolNameCharsMadeMax
  return name.length <= max ? name : `${name.slice(0, max - 9)}_${digest(text).slice(0, 8)}`
}

/** SHA-256 of a text, hex. */
export const digest = (text: string) => hash('sha256', text)
