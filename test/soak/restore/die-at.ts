/**
 * Kills the process that loads it (`node --import`) at one point, as a crash would: `TENON_DIE_AT` is `says <text>`, at a line on stderr,
 * or `rename <text>` and `rm <text>`, before a file whose new path, or path, has the text.
 */

import files from 'node:fs/promises'
import { syncBuiltinESMExports } from 'node:module'

const [, kind = '', text = ''] = /^(\w+) (.*)$/.exec(process.env['TENON_DIE_AT'] ?? '') ?? []

function dieIf(isThere: boolean): void {
  if (isThere) process.kill(process.pid, 'SIGKILL')
}

if (kind === 'says') {
  const write = process.stderr.write.bind(process.stderr)
  process.stderr.write = (chunk: string | Uint8Array, ...rest: never[]) => {
    dieIf(String(chunk).includes(text))
    return write(chunk, ...rest)
  }
} else {
  const { rename, rm } = files
  if (kind === 'rename')
    files.rename = (from, to) => {
      dieIf(String(to).includes(text))
      return rename(from, to)
    }
  if (kind === 'rm')
    files.rm = (path, options) => {
      dieIf(String(path).includes(text))
      return rm(path, options)
    }
  syncBuiltinESMExports()
}
