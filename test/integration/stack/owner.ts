/** A process that owns a stack, to be killed by a test: prints the pids of its servers, then waits. */

import { startStack } from '../../../stack/start.ts'

const [dir = ''] = process.argv.slice(2)
const stack = await startStack({ dir, ephemeral: true, env: process.env, onProgress: () => {} })
console.log(JSON.stringify({ pids: stack.servers.map(({ pid }) => pid), env: stack.env }))
