/** Runs the commands of docs/identity.md about second factors and sessions, as they stand there, one after the other. */

import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { addAccount, addClient, inWorkspace, tokensOf } from '../../support/clients/browser.ts'
import { operatorEnv } from '../../support/clients/cli.ts'
import { call, createTestWorkspace } from '../../support/fixtures/tenants.ts'

/** The token of the person is that of somebody whom a browser would sign in. */
const NPX = `npx() { shift; case "$*" in login) printf %s "$PERSON" ;; *) ${resolve('node_modules/.bin/tenon')} "$@" ;; esac; }\n`

test('page of sign-ins: its commands require a second factor and take it back, list sessions and consents, and end the oldest session', async () => {
  const workspace = await createTestWorkspace()
  const { operator } = workspace
  const [clientId, account] = await Promise.all([
    addClient(operator),
    addAccount(operator, { role: 'workspace_admin', ...inWorkspace(workspace) }),
  ])
  await tokensOf(clientId, account)
  const { access_token: PERSON } = (await tokensOf(clientId, account)).body
  const blocks = [...(await readFile('docs/identity.md', 'utf8')).matchAll(/```sh\n([\s\S]*?)```/g)]
  const cwd = await mkdtemp(join(tmpdir(), 'tenon-page-'))
  const env = {
    ...process.env,
    ...operatorEnv(workspace),
    ...{ TENON_TENANT_ID: workspace.tenantId, PERSON },
  }
  const script = NPX + blocks.map(([, text = '']) => text).join('')
  const { stdout } = await promisify(execFile)('bash', ['-euo', 'pipefail', '-c', script], { env, cwd })
  await rm(cwd, { recursive: true })
  expect([...stdout.matchAll(/^require_mfa +(true|false)$/gm)].map(([, value]) => value)).toEqual([
    ...['true', 'true', 'false'],
  ])
  expect(stdout.match(/^ses_\w+ \(this one\) /gm)).toHaveLength(1)
  expect(stdout).toMatch(/^id +ses_\w+\nended +true$/m)
  expect(stdout).toMatch(/^CONSENT .*\n\S+ +App /m)
  const left = await call('GET', `/v1/accounts/${account.id}/sessions`, { as: operator })
  expect(left.body.data).toHaveLength(1)
})
