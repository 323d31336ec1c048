/** Separates compiled code from its inline source map, which the process reads only if it has to locate an error. */

import { INLINE_MAP } from '../source-map.ts'

/** Deno would apply a map in its place, and keep no names of files; and a map that a comment in the source names, otherwise. */
const NO_MAP = `\n${INLINE_MAP}${Buffer.from('{"version":3,"sources":[],"names":[],"mappings":""}').toString('base64')}\n`

/** @returns the code without its map in base64, and the map as it is in the comment; empty if it has none */
export function splitSourceMap(compiled: string): { readonly base64: Buffer; readonly map: string } {
  const at = compiled.lastIndexOf(INLINE_MAP)
  const tail = at < 0 ? '' : compiled.slice(at + INLINE_MAP.length).trimEnd()
  const hasMap = /^[\w+/=]+$/.test(tail)
  const code = (hasMap ? compiled.slice(0, at) : compiled) + NO_MAP
  return { base64: Buffer.from(Buffer.from(code).toString('base64')), map: hasMap ? tail : '' }
}
