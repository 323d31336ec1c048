/** What `tenon up` shows: a line per thing that happens, then one table with everything a newcomer needs. */

import type { ProgressEvent, Stack } from '../../../stack/start.ts'
import type { SupervisorEvent } from '../../../stack/supervise.ts'
import type { Demo } from '../demo/index.ts'

const QUIET_MS = 2_000
const TITLE_CHARS = 14

export class Screen {
  readonly #startedMs = performance.now()
  #waiting: NodeJS.Timeout | undefined
  readonly #down = new Set<string>()

  line(text: string): void {
    process.stdout.write(`${text}\n`)
  }

  /** A step that may take time; if it takes more than two seconds, the screen says so every two. */
  step(what: string): void {
    this.#still(what)
    this.line(`  · ${what}`)
  }

  /** The stack says every two seconds what lasts. */
  server({ server, phase, detail, elapsedMs }: ProgressEvent): void {
    const mark = phase === 'ready' || phase === 'external' ? '✓' : '·'
    const when = elapsedMs < 100 ? '' : ` (${seconds(elapsedMs)})`
    this.line(`  ${mark} ${server.padEnd(TITLE_CHARS)} ${phase} ${detail}${when}`)
  }

  /** What happens to a server while the platform serves. */
  event({ name, type, detail }: SupervisorEvent): void {
    if (type === 'exited') this.#down.add(name)
    if (type === 'exited' || type === 'gave_up') this.line(`  ! ${name} ${type.replace('_', ' ')}: ${detail}`)
    if (type === 'ready' && this.#down.delete(name)) this.line(`  ✓ ${name} is back`)
  }

  table(stack: Pick<Stack, 'servers' | 'env'>, url: string, demo: Demo): void {
    this.#hush()
    const { execution, flow, version } = demo
    this.line(`\nFlow ${flow} v${version}: ${execution.status}`)
    this.line(indent(JSON.stringify(execution.output ?? execution.error, null, 2)))
    this.line('\nEach service was used once')
    for (const { title, text } of demo.proofs) this.#row(title, text)
    this.line('\nServers')
    for (const { title, version: running, address, origin } of stack.servers) {
      this.line(`  ${title.padEnd(TITLE_CHARS)} ${running.padEnd(20)} ${address.padEnd(18)} ${origin}`)
    }
    this.line('\nPlatform')
    this.#row('API', url)
    this.#row('OpenAPI page', `${url}/docs`)
    this.#row('Temporal UI', stack.env['TEMPORAL_UI_URL'] ?? '(set TEMPORAL_UI_URL)')
    if (execution.temporal_url) this.#row('this run', execution.temporal_url)
    this.#row('tenant', demo.tenantId)
    this.#row('workspace', demo.workspaceId)
    this.#keys(demo)
    this.#story(url, demo)
    this.line(`\nReady in ${seconds(performance.now() - this.#startedMs)}`)
  }

  serving(): void {
    this.line('Serving. Ctrl-C stops everything.')
  }

  end(byRequest: boolean): void {
    this.#hush()
    if (byRequest) this.line('\nStopping.')
  }

  #row(name: string, value: string): void {
    this.line(`  ${name.padEnd(TITLE_CHARS)} ${value}`)
  }

  #keys(demo: Demo): void {
    if (!demo.fresh) {
      this.#row('keys', 'in .env.local, as before')
      return
    }
    this.line('\nKeys (shown once, saved to .env.local)')
    this.#row('anon', demo.anonKey)
    this.#row('service', demo.serviceKey)
  }

  #story(url: string, { workspaceId, flow, proofs }: Demo): void {
    const textOf = (wanted: string) => proofs.find(({ title }) => title === wanted)?.text ?? ''
    const server = textOf('MCP server')
    const [bucket] = textOf('object').split('/')
    this.line(`
Try it
  set -a; . ./.env.local; set +a
  curl -s ${url}/v1/collections/todos/documents -H "apikey: $TENON_SERVICE_KEY" \\
    -H 'content-type: application/json' -d '{"title":"buy milk","done":false}'
  curl -s '${url}/v1/collections/todos/documents?done=eq.false' -H "apikey: $TENON_ANON_KEY"
  curl -N '${url}/v1/events/subscribe?topic=orders.*&apikey='$TENON_ANON_KEY
  npx tenon event publish orders.created '{"n":1}'
  npx tenon object put ${bucket}/readme README.md && npx tenon object get ${bucket}/readme
  npx tenon fn deploy examples/greet.ts && npx tenon fn invoke greet --input '{"name":"Lin"}'
  curl -s ${url}/v1/flows/workspaces/${workspaceId}/definitions/${flow}/executions \\
    -H "Authorization: Bearer $(npx tenon token)" -H 'Prefer: wait=10' \\
    -H 'content-type: application/json' -d '{"input":{"name":"Grace"}}'
For an agent (the token: npx tenon mcp token demo)
  {"mcpServers":{"tenon-demo":{"type":"http","url":"${server}","headers":{"Authorization":"Bearer …"}}}}`)
  }

  #still(what: string): void {
    this.#hush()
    const since = performance.now()
    this.#waiting = setInterval(
      () => this.line(`    … ${what} (${seconds(performance.now() - since)})`),
      QUIET_MS,
    ).unref()
  }

  #hush(): void {
    clearInterval(this.#waiting)
  }
}

const seconds = (ms: number) => `${(ms / 1_000).toFixed(1)} s`
const indent = (text: string) => text.replaceAll(/^/gm, '  ')
