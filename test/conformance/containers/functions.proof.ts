/** Functions in containers: the worker isolates them by bubblewrap, and nothing of the platform is in reach. */

import { expect, inject, test } from 'vitest'
import { deployed, resultOf } from '../../support/fixtures/functions.ts'
import { createTestWorkspace } from '../../support/fixtures/tenants.ts'
import { Installation } from './installation.ts'

const { folder, secrets } = inject('containers')
const installation = new Installation(folder, secrets)

test('worker: isolates functions by bubblewrap', async () => {
  const lines = (await installation.logs('worker')).split('\n')
  const found = lines.filter((line) => line.includes('"check":"functions"'))
  expect(found.at(-1)).toMatch(/isolated by deno permissions, bwrap/)
})

/** Run with all permissions of Deno, as if a function had escaped them. */
const ESCAPED = `
const can = async (work) => { try { return [String(await work()).slice(0, 80)] } catch { return [] } }
const found = []
for (const path of ['/proc/1/environ', '/proc/self/environ', '/app/package.json', '/etc/passwd', '/identity', '/tmp'])
  found.push(...await can(() => Deno.readTextFile(path)))
found.push(...Object.keys(Deno.env.toObject()).filter((name) => !['DENO_DIR', 'NO_COLOR', 'PWD'].includes(name)))
for (const hostname of ['postgres', '127.0.0.1'])
  for (const port of [5432, 9464]) found.push(...await can(() => Deno.connect({ hostname, port })))
found.push(...await can(() => Deno.writeTextFile('/tmp/x', 'x')))
console.log(JSON.stringify({ ran: true, found }))
`

/** Starts it in the layers that the worker has found, in the container of the worker, with its environment. */
const START = `
import { spawn } from 'node:child_process'
import { text } from 'node:stream/consumers'
import { findIsolation } from '/app/src/features/functions/sandbox/isolation.ts'
const deno = process.env.TENON_DENO_BIN
const isolation = await findIsolation(deno)
const module = 'data:text/javascript;base64,' + process.argv[1]
const { command, args } = isolation.start(deno, ['run', '-A', '--no-config', module])
const child = spawn(command, args, { cwd: '/', env: { DENO_DIR: '/dev/null/none', NO_COLOR: '1' }, stdio: ['ignore', 'pipe', 'pipe'] })
const [out, err] = await Promise.all([text(child.stdout), text(child.stderr)])
console.log(JSON.stringify(isolation.layers.sandbox?.name), out, err)
`

test('function that has escaped Deno: reads no environment, file or server of the platform', async () => {
  const program = Buffer.from(ESCAPED).toString('base64')
  const printed = await installation.exec('worker', 'node', '--input-type=module', '-e', START, program)
  expect(printed.trim().split(/\s+/)).toEqual(['"bwrap"', '{"ran":true,"found":[]}'])
})

test('function of a tenant: runs, and sees no variable of the platform', async () => {
  const workspace = await createTestWorkspace()
  const id = await deployed(
    workspace,
    `export default async () => {
      const tried = {}
      try { tried.deno = Object.keys(Deno.env.toObject()) } catch ({ name }) { tried.deno = name }
      try { tried.file = Deno.readTextFileSync('/proc/self/environ') } catch ({ name }) { tried.file = name }
      return tried
    }`,
  )
  expect(await resultOf(workspace.service, id)).toEqual({ deno: 'NotCapable', file: 'NotCapable' })
})
