/** Hosts of agents, by the requests that they send: at the hosted server, and at the platform's own. */

import { ok } from 'node:assert/strict'
import { HOSTS, type Host } from '../../../support/hosts/hosts.ts'
import { useHost } from '../../../support/hosts/use-host.ts'
import type { Check, World } from './world.ts'

export function hostChecks(world: World): Check[] {
  return Object.entries(HOSTS).flatMap(([name, host]) => [
    { name: `${name}, hosted server`, run: () => useDesk(host, world) },
    { name: `${name}, platform server`, run: () => usePlatform(host, world) },
  ])
}

async function useDesk(host: Host, { desk: endpoint, visit }: World): Promise<void> {
  const { texts } = await useHost(host, {
    ...{ endpoint, visit },
    calls: {
      list: { name: 'orders_list', arguments: { status: 'late' } },
      quote: { name: 'call_quote', arguments: { cents: 1 } },
      wrong: { name: 'orders_list', arguments: { status: 'no such' } },
    },
  })
  const { list = [], quote = [], wrong = [] } = texts
  expectAll(list, /"number":"A1"/)
  expectAll(quote, /"price":501/)
  expectAll([...list, ...quote], /untrusted/)
  expectAll(wrong, /status.*late/s)
}

async function usePlatform(host: Host, { platform: endpoint, visit, workspaceId: ws }: World): Promise<void> {
  const { texts } = await useHost(host, {
    ...{ endpoint, visit },
    calls: {
      list: { name: 'flow_list', arguments: { workspace_id: ws } },
      wrong: { name: 'flow_get', arguments: { workspace_id: ws, id: 'missing' } },
    },
  })
  expectAll(texts['list'] ?? [], /deliver/)
  expectAll(texts['wrong'] ?? [], /not_found|validation_failed/)
}

function expectAll(texts: readonly string[], pattern: RegExp): void {
  ok(texts.length > 0)
  for (const text of texts) ok(pattern.test(text), text)
}
