/** `tenon event publish|subscribe`. */

import type { Command } from 'commander'
import { ApiError } from './client.ts'
import { need, readSettings, serviceClient } from './settings.ts'
import { jsonOf, printJson, verb } from './verb.ts'

async function publish(topic: string, data: string): Promise<number> {
  const client = serviceClient(await readSettings())
  return printJson(await client.post('/v1/events/publish', { topic, data: jsonOf(data, 'The data') }))
}

/** Prints each event's envelope as a line of JSON, until Ctrl-C or the server's end. */
async function subscribe(topic: string): Promise<number> {
  const settings = await readSettings()
  const url = `${need(settings, 'TENON_URL')}/v1/events/subscribe?topic=${encodeURIComponent(topic)}`
  const response = await fetch(url, { headers: { apikey: need(settings, 'TENON_SERVICE_KEY') } })
  if (!response.ok || response.body === null)
    throw new ApiError(response.status, (await response.json()) as Record<string, unknown>)
  process.stderr.write(`listening to ${topic}; Ctrl-C ends it\n`)
  let rest = ''
  for await (const chunk of response.body.pipeThrough(new TextDecoderStream())) {
    const frames = (rest + chunk).split('\n\n')
    rest = frames.pop() ?? ''
    for (const frame of frames) printFrame(frame)
  }
  return 0
}

/** Frames without an id are the stream's own: `ready`, `gap`, heartbeats. */
function printFrame(frame: string): void {
  const data = /^data: (.*)$/m.exec(frame)?.[1]
  if (/^id: /m.test(frame) && data !== undefined) process.stdout.write(`${data}\n`)
}

export function eventVerbs(program: Command): void {
  const event = program.command('event').description("the tenant's event stream")
  event.command('publish <topic> <json>').action(verb(publish))
  event
    .command('subscribe <topic>')
    .description('print events as they come; orders.* for all below orders')
    .action(verb(subscribe))
}
