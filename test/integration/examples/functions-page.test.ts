/** The commands of docs/functions.md, one after another: words as a shell reads them, the CLI in this process, and curl as `fetch`. */

import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { operatorEnv, runCommand } from '../../support/clients/cli.ts'
import { createTestWorkspace } from '../../support/fixtures/tenants.ts'

let page: string
let dir: string
let env: NodeJS.ProcessEnv
beforeAll(async () => {
  page = await readFile('docs/functions.md', 'utf8')
  dir = await mkdtemp(join(tmpdir(), 'tenon-functions-page-'))
  const workspace = await createTestWorkspace()
  const TOKEN = workspace.operator['authorization']?.replace('Bearer ', '')
  env = { ...operatorEnv(workspace), TENON_ANON_KEY: workspace.anon['apikey'], TOKEN }
})
afterAll(() => rm(dir, { recursive: true, force: true }))

/** The only block of the page with a text, without its fences. */
function block(language: 'sh' | 'js', text: string): string {
  const blocks = [...page.matchAll(/```(\w+)\n([\s\S]*?)```/g)]
  const found = blocks.filter(([, of, content = '']) => of === language && content.includes(text))
  expect(found).toHaveLength(1)
  return found[0]?.[2] ?? ''
}

/** Prints the words of a command instead of running it. A token is known already. */
const SHELL = `
npx() { if [ "$*" = 'tenon token' ]; then printf %s "$TOKEN"; else printf '%s\\0' npx "$@"; fi; }
curl() { printf '%s\\0' curl "$@"; }
`

/** Runs the commands of a block. @returns what each has printed, with the status of a response before it */
async function runBlock(text: string): Promise<string[]> {
  const printed = []
  for (const command of text.trim().replaceAll('\\\n', '').split('\n')) {
    const { stdout } = await promisify(execFile)('/bin/sh', ['-c', `${SHELL}${command}`], { env })
    const [program, ...words] = stdout.split('\0').slice(0, -1)
    printed.push(await (program === 'npx' ? runTenon(words) : runCurl(words)))
  }
  return printed
}

async function runTenon([tenon, ...args]: readonly string[]): Promise<string> {
  expect(tenon).toBe('tenon')
  const { code, stdout, stderr } = await runCommand(args, { env, callerDir: dir })
  expect(code, stderr).toBe(0)
  return stdout
}

/** Sends what `curl` would send: `-d` is a form unless a header says otherwise. */
async function runCurl(words: readonly string[]): Promise<string> {
  const fields = [...words]
  const headers = new Headers({ 'content-type': 'application/x-www-form-urlencoded' })
  const request: { url?: string; method: string; body?: string } = { method: 'POST' }
  for (let word = fields.shift(); word !== undefined; word = fields.shift()) {
    if (word === '-s') continue
    if (word === '-X') request.method = fields.shift() ?? ''
    else if (word === '-d') request.body = fields.shift() ?? ''
    else if (word === '-H') headers.set(...((fields.shift() ?? '').split(': ', 2) as [string, string]))
    else if (/^https?:/.test(word)) request.url = word
    else throw new Error(`The test does not know ${word}.`)
  }
  const { url = '', method, body = '' } = request
  const response = await fetch(url, { method, headers, body })
  return `${response.status} ${await response.text()}`
}

test('init, deploy and invoke: the written function greets', async () => {
  const [, deployed, invoked = ''] = await runBlock(block('sh', 'fn init greet'))
  expect(deployed).toMatch(/^greet v1 /)
  expect(JSON.parse(invoked)).toEqual({ message: 'Hello, Ada!' })
})

test('deploy and invoke over REST: the next version greets', async () => {
  const [deployed, invoked] = await runBlock(block('sh', '$TENON_URL/v1/functions -H'))
  expect(deployed).toMatch(/^201 .*"version":2/)
  expect(invoked).toBe('200 "Hello, Ada!"')
})

test('raw HTTP: the function of the page answers an anon key in the query', async () => {
  await writeFile(join(dir, 'web.js'), block('js', "pathname === '/echo'"))
  const [deployed, echoed] = await runBlock(block('sh', 'fn deploy web.js'))
  expect(deployed).toMatch(/^web v1 /)
  expect(echoed).toBe('201 any bytes')
})

test('aliases: the same by the CLI and over REST', async () => {
  expect(await runBlock(block('sh', 'fn alias set greet stable'))).toEqual([
    'stable  v1\n',
    'production  v1 90 %, v2 10 %\n',
  ])
  await runTenon(['tenon', 'fn', 'alias', 'remove', 'greet', 'production'])
  const [first = '', ...rest] = block('sh', 'aliases/production').split('\n')
  expect(first).toBe('ID=$(npx tenon fn show greet | jq -r .id)')
  env['ID'] = JSON.parse(await runTenon(['tenon', 'fn', 'show', 'greet'])).id
  expect(await runBlock(rest.join('\n'))).toEqual([expect.stringMatching(/^200 .*"name":"production"/)])
  expect(await runTenon(['tenon', 'fn', 'alias', 'list', 'greet'])).toContain(
    'production  v1 90 %, v2 10 %\n',
  )
})
