/** `tenon event publish|subscribe`. */

import type { Command } from 'commander'
import { framesOf } from './frames.ts'
import { readSettings, serviceClient } from './settings.ts'
import { jsonOf, printJson, verb } from './verb.ts'

async function publish(topic: string, data: string): Promise<number> {
  const body = { topic, data: jsonOf(data, 'The data') }
  const client = await serviceClient(await readSettings())
  return printJson(await client.post('/v1/events/publish', body))
}

/** Prints each event's envelope as a line of JSON, until Ctrl-C or the server's end. */
async function subscribe(topic: string): Promise<number> {
  const client = await serviceClient(await readSettings())
  const response = await client.send('GET', `/v1/events/subscribe?topic=${encodeURIComponent(topic)}`)
  process.stderr.write(`listening to ${topic}; Ctrl-C ends it\n`)
  for await (const { id, data } of framesOf(response)) {
    // Frames without an id are the stream's own: `ready`, `gap`.
    if (id !== undefined) process.stdout.write(`${data}\n`)
  }
  return 0
}

export function eventVerbs(program: Command): void {
  const event = program.command('event').description("the tenant's event stream")
  event.command('publish <topic> <json>').action(verb(publish))
  event
    .command('subscribe <topic>')
    .description('print events as they come; orders.* for all below orders')
    .action(verb(subscribe))
}
