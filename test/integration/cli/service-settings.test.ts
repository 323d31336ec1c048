/** Commands that change settings of a workspace while others change them: `service set --if-match`, and `workspace egress`. */

import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { expect, inject, onTestFinished, test } from 'vitest'
import { operatorEnv, runCommand } from '../../support/clients/cli.ts'
import { createTestWorkspace } from '../../support/fixtures/tenants.ts'
import { configure } from '../../support/stack/workspace-settings.ts'

const revisionIn = ({ stderr }: { readonly stderr: string }) => /^Revision (\S+)$/m.exec(stderr)?.[1] ?? ''

test('service set --if-match: changes the settings of the revision that was shown; later, it says what to do', async () => {
  const workspace = await createTestWorkspace()
  const { workspaceId } = workspace
  const service = (...args: string[]) => runCommand(['service', ...args], { env: operatorEnv(workspace) })
  const shown = revisionIn(await service('show'))
  const tried = await service('set', 'anon.events=none', '--dry-run')
  expect(tried.stderr).toContain(`With --if-match ${shown} in place of --dry-run`)
  const changed = await service('set', 'anon.events=none', '--if-match', shown)
  expect([changed.code, changed.stdout]).toEqual([0, expect.stringContaining('anon.events')])
  const now = revisionIn(changed)
  for (const more of [[], ['--dry-run'], ['--json']]) {
    const late = await service('set', 'anon.objects=public', '--if-match', `"${shown}"`, ...more)
    expect([late.code, late.stdout]).toEqual([1, ''])
    expect(late.stderr).toContain(`no longer those of revision ${shown}, but those of ${now}.`)
    expect(late.stderr).toContain(`tenon service show --workspace ${workspaceId}`)
  }
  const repeated = await service('set', 'anon.objects=public', '--if-match', now)
  expect([repeated.code, repeated.stdout]).toEqual([0, expect.stringContaining('anon.objects')])
})

/** Forwards to the platform, and does something before it forwards the first change of settings. */
async function startProxy(before: () => Promise<unknown>): Promise<string> {
  let isFirst = true
  const forward = async (request: IncomingMessage, response: ServerResponse) => {
    const { method = 'GET', url = '', headers } = request
    if (isFirst && url === '/v1/services/configure') {
      isFirst = false
      await before()
    }
    const names = ['authorization', 'content-type', 'if-match']
    const sent = Object.fromEntries(
      names.flatMap((name) => (headers[name] ? [[name, `${headers[name]}`]] : [])),
    )
    const body = await text(request)
    const answer = await fetch(`${inject('tenon').url}${url}`, {
      ...{ method, headers: sent },
      ...(body !== '' && { body }),
    })
    response.writeHead(answer.status, { etag: answer.headers.get('etag') ?? '' }).end(await answer.text())
  }
  const server = createServer((request, response) => {
    forward(request, response).catch((error: unknown) => response.writeHead(500).end(String(error)))
  })
  onTestFinished(() => void server.close())
  await once(server.listen(0, '127.0.0.1'), 'listening')
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

test('workspace egress allow: another address is allowed between look and change: both stay', async () => {
  const workspace = await createTestWorkspace()
  await configure(workspace, { egress: { allow: ['a.example:443'] } })
  const others = ['a.example:443', 'b.example:443']
  const TENON_URL = await startProxy(() => configure(workspace, { egress: { allow: others } }))
  const TENON_TOKEN = workspace.operator['authorization']?.replace('Bearer ', '')
  const { stdout, stderr } = await runCommand(['workspace', 'egress', 'allow', 'c.example:443'], {
    env: { ...operatorEnv(workspace), TENON_URL, TENON_TOKEN },
  })
  expect(stdout, stderr).toBe([...others, 'c.example:443'].map((one) => `${one}\n`).join(''))
})
