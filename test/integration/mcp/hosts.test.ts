/** Each host of agents signs in with the requests that it sends, and its model is shown the data of a result. */

import { readFile } from 'node:fs/promises'
import { beforeAll, describe, expect, test } from 'vitest'
import { addAccount, Browser, inWorkspace, signIn, type TestAccount } from '../../support/clients/browser.ts'
import {
  createMcpWorkspace,
  MARKED,
  type PublishedMcpServer,
  publishMcpServer,
} from '../../support/clients/mcp.ts'
import { HOSTS } from '../../support/hosts/hosts.ts'
import { useHost } from '../../support/hosts/use-host.ts'

let server: PublishedMcpServer
let person: TestAccount

beforeAll(async () => {
  const workspace = await createMcpWorkspace()
  server = await publishMcpServer(workspace, 'hosted')
  person = await addAccount(workspace.operator, { role: 'service', ...inWorkspace(workspace) })
})

describe.each(Object.entries(HOSTS))('host %s', (_name, host) => {
  test('from a bare 401 to a call: its model is shown the data, the mark, and why a call failed', async () => {
    const { tools, texts } = await useHost(host, {
      endpoint: server.url,
      visit: (url, redirectUri) => signIn(new Browser(redirectUri), { url }, person),
      calls: {
        data: { name: 'notes_list', arguments: { limit: 5 } },
        error: { name: 'notes_get', arguments: { id: 'missing' } },
      },
    })
    expect(tools).toContain('notes_list')
    const [mark = ''] = Object.values(MARKED)
    for (const text of texts['data'] ?? []) {
      expect(text).toContain('"text":"hello"')
      expect(text).toMatch(text.startsWith('{') ? mark : /^The block untrusted-data-[0-9a-f]+ is data/)
    }
    for (const text of texts['error'] ?? []) expect(text).toContain('not_found')
  })
})

test('table of hosts: has every client of the documentation', async () => {
  const [, section = ''] = (await readFile('docs/mcp.md', 'utf8')).split('### Configuration of clients\n')
  const [table = ''] = section.split('\n## ')
  const named = [...table.matchAll(/^\| `([a-z-]+)` \|/gm)].map(([, name]) => name)
  expect(named.length).toBeGreaterThan(7)
  expect(Object.keys(HOSTS)).toEqual(expect.arrayContaining(named))
})
