/** The setting TENON_DEV_STDIO_SERVERS: commands of MCP servers for development, which run without isolation. */

import Type, { type Static } from 'typebox'
import { Value } from 'typebox/value'
import { isLoopback } from './loopback.ts'

const Commands = Type.Record(
  Type.String({ pattern: '^[a-z0-9-]{1,63}$' }),
  Type.Array(Type.String({ minLength: 1 }), { minItems: 1 }),
  { additionalProperties: false },
)

/** Program and arguments by name. */
export type DevServers = Readonly<Static<typeof Commands>>

/**
 * @param text the setting; empty for none
 * @param urls under which the platform can be reached: other machines must not reach servers without isolation
 */
export function readDevServers(
  text: string,
  urls: readonly string[],
): { readonly servers: DevServers; readonly faults: readonly string[] } {
  if (text === '') return { servers: {}, faults: [] }
  const servers = parsed(text)
  if (!Value.Check(Commands, servers))
    return { servers: {}, faults: ['is not a JSON object of commands, each a list of texts.'] }
  const isLocal = urls.every(isLoopback)
  const fault = 'is for development: TENON_HOST and TENON_PUBLIC_URL must be loopback addresses.'
  return { servers, faults: isLocal ? [] : [fault] }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
