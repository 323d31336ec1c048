/** Owns a stack until a test kills it: prints the process ids of its servers, then waits. */

import { startStack } from '../../../stack/start.ts'

const [dir = ''] = process.argv.slice(2)
const stack = await startStack({ dir, ephemeral: true, env: process.env, onProgress: () => {} })
console.log(JSON.stringify({ pids: stack.servers.map(({ pid }) => pid), env: stack.env }))
