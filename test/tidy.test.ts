/** Style as law: what no linter of ours knows. */

import { readdir, readFile } from 'node:fs/promises'
import { expect, test } from 'vitest'

const FOLDERS = ['src', 'flows-dsl', 'stack', 'bench', 'test']

interface Source {
  readonly name: string
  readonly text: string
  readonly lines: readonly string[]
}

async function sources(): Promise<Source[]> {
  const names = await Promise.all(
    FOLDERS.map(async (folder) => {
      const entries = await readdir(folder, { recursive: true }).catch(() => [])
      return entries.filter((name) => /\.(ts|mjs)$/.test(name)).map((name) => `${folder}/${name}`)
    }),
  )
  return Promise.all(
    names.flat().map(async (name) => {
      const text = await readFile(name, 'utf8')
      return { name, text, lines: text.split('\n') }
    }),
  )
}

const all = await sources()
const product = all.filter(({ name }) => !name.startsWith('test/') && !name.startsWith('bench/'))

test('files have at most 400 lines', () => {
  expect(all.filter(({ lines }) => lines.length > 401).map(({ name }) => name)).toEqual([])
})

test('a file opens with one sentence on what it knows', () => {
  const silent = all.filter(
    ({ lines }) =>
      !/^(\/\*\*|\/\/)(\n \*)? ?\S/.test(lines.slice(lines[0]?.startsWith('#!') ? 1 : 0).join('\n')),
  )
  expect(silent.map(({ name }) => name)).toEqual([])
})

test('deterministic code asks nobody for time, chance or locale', () => {
  const banned = /\bDate\.now\b|Math\.random|\bIntl\b|localeCompare|toLocale|process\.|from 'node:/
  const pure = product.filter(({ name }) => /^(flows-dsl|src\/workflows)\//.test(name))
  expect(pure.length).toBeGreaterThan(10)
  // The compiler alone asks for time zones.
  expect(pure.filter(({ text }) => banned.test(code(text))).map(({ name }) => name)).toEqual([
    'flows-dsl/compile/timezones.ts',
  ])
  expect(pure.filter(({ text }) => /\/timezones\.ts'/.test(text)).map(({ name }) => name)).toEqual([
    'flows-dsl/compile/schedule.ts',
  ])
})

test('words that have no place here', () => {
  const banned = /\b(TODO|FIXME|XXX|HACK)\b|\bas any\b|: any\b|@ts-ignore|eslint-disable/
  expect(product.filter(({ text }) => banned.test(code(text))).map(({ name }) => name)).toEqual([])
})

test('every skipped test says why', () => {
  const skipped = all.filter(
    ({ name, text }) => name !== 'test/tidy.test.ts' && /\b(test|it|describe)\.(skip|todo|only)\(/.test(text),
  )
  expect(skipped.map(({ name }) => name)).toEqual([])
})

test('files of tests share a process: none puts anything in place of its modules or settings', () => {
  const banned = /\bvi\.(mock|doMock|stubGlobal|stubEnv)\(|\bprocess\.(env(\.\w+|\[[^\]]*\]) = |chdir\()/
  const those = all.filter(({ name, text }) => name.startsWith('test/') && banned.test(code(text)))
  // What it sets is taken back.
  expect(those.map(({ name }) => name)).toEqual(['test/integration/stack/supervise.test.ts'])
})

/** Without comments. */
function code(text: string): string {
  return text.replaceAll(/\/\*[\s\S]*?\*\//g, '').replaceAll(/\/\/.*$/gm, '')
}
