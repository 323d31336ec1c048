/** rclone syncs a thousand files with odd names to the bucket and back, and both sides list the same. */

import { strict as assert } from 'node:assert'
import { mkdir, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { Programs } from './programs.ts'
import type { Target } from './target.ts'

const FILES = 1_000
const ODD = [
  ' ',
  '+',
  '%',
  '%2F',
  '&',
  '?',
  '#',
  '=',
  ':',
  ';',
  ',',
  '@',
  '!',
  "'",
  '"',
  '(',
  ')',
  '*',
  '~',
  '|',
  '<',
  '>',
]
const LETTERS = [
  ...ODD,
  '\\',
  '`',
  '^',
  '{',
  '}',
  '[',
  ']',
  '$',
  'é',
  'e\u0301',
  'ß',
  '😀',
  '\u{10ffff}',
  '中',
  'א',
  '.',
  '-',
  '_',
]

/** Names that differ, some of them in folders. */
const nameOf = (index: number): string => {
  const pick = (at: number) => LETTERS[(index * 7 + at * 13) % LETTERS.length] ?? ''
  const name = `${pick(0)}${pick(1)}${index}${pick(2)}x`
  return index % 5 === 0 ? `d${pick(3)}r${index % 7}/${name}` : name
}

interface Listed {
  readonly Path: string
  readonly Size: number
}

export async function testRclone(
  { rclone }: Programs,
  { run, bucket, dir, endpoint }: Target,
): Promise<void> {
  const env = {
    ...{
      RCLONE_CONFIG: '',
      RCLONE_CONFIG_T_TYPE: 's3',
      RCLONE_CONFIG_T_PROVIDER: 'Other',
      RCLONE_CONFIG_T_ENV_AUTH: 'true',
    },
    ...{ RCLONE_CONFIG_T_ENDPOINT: endpoint, RCLONE_CONFIG_T_FORCE_PATH_STYLE: 'true' },
  }
  const call = (...args: string[]) => run(rclone, [...args, '--retries=1', '--low-level-retries=1'], env)
  const list = async (where: string) => {
    const found = JSON.parse(await call('lsjson', '-R', '--files-only', where)) as Listed[]
    return found.map(({ Path, Size }) => `${Path} ${Size}`).sort()
  }
  const [from, to, remote] = [join(dir, 'rclone-from'), join(dir, 'rclone-to'), `t:${bucket}/rclone`]
  for (let index = 0; index < FILES; index += 1) {
    const path = join(from, nameOf(index))
    await mkdir(dirname(path), { recursive: true })
    await writeFile(path, 'x'.repeat(index % 50))
  }
  await call('sync', from, remote)
  assert.equal((await list(from)).length, FILES)
  assert.deepEqual(await list(remote), await list(from))
  await call('check', from, remote)
  await call('sync', remote, to)
  assert.deepEqual(await list(to), await list(from))
  await rm(join(from, nameOf(1)))
  await call('sync', from, remote)
  assert.deepEqual(await list(remote), await list(from))
  await call('purge', remote)
  assert.deepEqual(
    await list(`t:${bucket}/`).then((all) => all.filter((name) => name.startsWith('rclone/'))),
    [],
  )
}
