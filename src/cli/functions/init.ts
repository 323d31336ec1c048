/** `tenon fn init`: writes a function that a developer can deploy and change. */

import { mkdir, writeFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import type { Command } from 'commander'
import { callerPath } from '../settings.ts'
import { addVerb } from '../verb.ts'

const SOURCE = `export const input = {
  type: 'object',
  properties: { name: { type: 'string', description: 'Who is greeted.' } },
  additionalProperties: false,
}

export default ({ name = 'world' }: { name?: string }, { log }: { log: (...values: unknown[]) => void }) => {
  log('greeting', name)
  return { message: \`Hello, \${name}!\` }
}
`

/** Writes \`index.ts\` unless it exists. @returns the exit code */
async function init(folder: string): Promise<number> {
  const file = join(folder, 'index.ts')
  await mkdir(callerPath(folder), { recursive: true })
  await writeFile(callerPath(file), SOURCE, { flag: 'wx' }).catch((error: NodeJS.ErrnoException) => {
    throw error.code === 'EEXIST' ? new Error(`${file} is there already.`) : error
  })
  process.stdout.write(`${file}\n`)
  const name = basename(callerPath(folder))
  process.stderr.write(
    `Deploy it: tenon fn deploy ${folder}\nCall it: tenon fn invoke ${name} --input '{"name": "Ada"}'\n`,
  )
  return 0
}

export function initVerb(functions: Command): void {
  addVerb(functions, 'init <folder>', 'write an example function', init)
}
