/** Checks that what texts of the product and of the documentation tell readers to use exists: paths of the API, commands, settings. */

import { readdir, readFile } from 'node:fs/promises'
import type { Command } from 'commander'
import { expect, test } from 'vitest'
import { createProgram } from '../../src/cli/program.ts'
import { PROBLEMS } from '../../src/core/problem-catalogue.ts'
import type { ProblemRow } from '../../src/core/problem-row.ts'
import { OPERATIONS } from '../../src/features/index.ts'

interface Text {
  readonly name: string
  readonly text: string
}

async function textsOf(folder: string, pattern: RegExp): Promise<Text[]> {
  const names = (await readdir(folder, { recursive: true })).filter((name) => pattern.test(name))
  const read = (name: string) => readFile(`${folder}/${name}`, 'utf8')
  return Promise.all(names.map(async (name) => ({ name: `${folder}/${name}`, text: await read(name) })))
}

const product = [...(await textsOf('src', /\.ts$/)), ...(await textsOf('flows-dsl', /\.ts$/))]
const pages = (await textsOf('docs', /\.md$/)).filter(({ name }) => !name.startsWith('docs/decisions/'))
const all = [...product, ...pages, { name: 'README.md', text: await readFile('README.md', 'utf8') }]

/** The places of texts that name something which is not there. */
const missing = (pattern: RegExp, exists: (found: RegExpMatchArray) => boolean, texts = all) =>
  texts.flatMap(({ name, text }) =>
    [...text.matchAll(pattern)].filter((found) => !exists(found)).map(([found]) => `${name}: ${found}`),
  )

/** Parts of a path in which a text leaves something open. */
const isOpen = (part: string) => /[{}$…<]/.test(part)

/** Of MCP, beside the operations. */
const OTHER_ROUTES = /^\/v1\/mcp\/(platform|workspaces\/[^/]+\/servers\/[^/]+)\/mcp$/

/** @param path may end with an optional part in brackets */
function isRoute(method: string, path: string): boolean {
  if (OTHER_ROUTES.test(path)) return true
  const [whole = '', optional] = path.replaceAll(/\$\{[^}]*\}/g, '…').split('[')
  const parts = whole.split('/')
  return OPERATIONS.some(({ http }) => {
    const known = http.path.split('/')
    const isSame = parts.every((part, n) => isOpen(part) || isOpen(known[n] ?? '') || part === known[n])
    const more = known.length - parts.length
    const isWhole =
      more === 0 || (more === 1 && optional !== undefined) || (more < 0 && http.path.endsWith('*}'))
    return http.method === method && isSame && isWhole
  })
}

test('method with a path: in a text of the product or a page: is an operation', () => {
  const request = /\b(GET|POST|PUT|PATCH|DELETE) (\/v1\/(?:\$\{[^}]*\}|[\w\-./{}…<>$])*[\w}…>](?:\[\/)?)/g
  expect(missing(request, ([, method = '', path = '']) => isRoute(method, path))).toEqual([])
})

/** Of images, containers and the documentation: src/cli/main.ts adds them, and no help lists them. */
const HIDDEN = ['build', 'package', 'certificate', 'temporal-ui', 'reference']

/** True if the words begin with a command that takes what follows. */
function isCommand(words: readonly string[], command: Command = createProgram()): boolean {
  const [word = '', ...rest] = words
  if (command.commands.length === 0 || words.length === 0) return true
  const found = command.commands.find((one) => one.name() === word || one.aliases().includes(word))
  return found !== undefined && isCommand(rest, found)
}

test('command line: in a text of the product or a page: is a command of the CLI', () => {
  const line = /(?:npx tenon|`tenon)(?: --quiet)?((?: [a-z][a-z-]*)+)/g
  expect(
    missing(line, ([, words = '']) => HIDDEN.includes(words.trim()) || isCommand(words.trim().split(' '))),
  ).toEqual([])
})

test('option of a command: in a text of the product or a page: is one of the CLI', () => {
  const options = new Set<string>(['--help'])
  const collect = (command: Command): void => {
    for (const { long } of command.options) if (long) options.add(long)
    command.commands.forEach(collect)
  }
  collect(createProgram())
  const line = /(?:npx tenon|`tenon) [^`\n#|]*?(--[a-z][a-z-]+)/g
  expect(missing(line, ([, option = '']) => options.has(option))).toEqual([])
})

test('setting: in a text of the product: is described in the documentation', async () => {
  const described = pages.map(({ text }) => text).join('\n')
  const isDescribed = ([name]: RegExpMatchArray) => described.includes(name)
  const texts = product.filter(({ name }) =>
    /^src\/(core|features|access|api|mcp|activities|cli)\//.test(name),
  )
  const INTERNAL =
    /TENON_(CALLER_CWD|QUIET|MODULE|WORKFLOW_BUNDLE|EAGER_START_SOCKET|SDK_PATCHES|BUILDER_PASSWORD|APP_PASSWORD)\b/
  expect(
    missing(/\bTENON_[A-Z_]+[A-Z]\b/g, (found) => INTERNAL.test(found[0]) || isDescribed(found), texts),
  ).toEqual([])
})

test.each(Object.entries<ProblemRow>(PROBLEMS))(
  '%s: the title is a phrase, the help are sentences',
  (_code, { title, help, adminHint }) => {
    expect(title).toMatch(/^[A-Z].*[^.:;, ]$/)
    expect(help).toMatch(/^[A-Z`].*[.!?]$/)
    expect(adminHint ?? help).toMatch(/^[A-Z`].*[.!?]$/)
  },
)
