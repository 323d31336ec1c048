/**
 * Behaves as the command line of a container engine, as far as the platform uses it, and becomes the server in place of a container.
 * It records its arguments, its environment and the file of variables. Arguments: the folder of its records, then those of the
 * engine. The name of the image chooses the behaviour.
 */

import { appendFileSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'

const [folder = '', ...args] = process.argv.slice(2)
const image = args.find((one) => one.includes('@sha256:')) ?? ''
const behaviour = image.replace(/@.*/, '').split('/').at(-1) ?? ''

function record(more: object = {}): void {
  const line = JSON.stringify({ args, pid: process.pid, environment: Object.keys(process.env), ...more })
  appendFileSync(join(folder, 'calls.jsonl'), `${line}\n`)
}

function inspect(): void {
  record()
  if (behaviour === 'absent') process.exit(1)
  console.log(behaviour === 'volumes' ? '{"/data":{}}' : 'null')
}

async function run(): Promise<void> {
  const file = args[args.indexOf('--env-file') + 1] ?? ''
  const lines = readFileSync(file, 'utf8').split('\n').filter(Boolean)
  record({ lines, file, mode: statSync(file).mode & 0o777 })
  if (behaviour === 'broken') {
    console.error('Cannot connect to the daemon at unix:///run/secret.sock')
    process.exit(125)
  }
  for (const name of Object.keys(process.env)) delete process.env[name]
  for (const line of lines) process.env[line.replace(/=.*/s, '')] = line.replace(/^[^=]*=/, '')
  process.argv.splice(2, process.argv.length, behaviour, ...args.slice(args.indexOf(image) + 1))
  await import('./stdio-mcp-server.ts')
}

if (args[0] === 'run') await run()
else if (args[0] === 'image') inspect()
else record()
