/** Takes the preferred ports of an installation as a start does, prints them, and keeps them until it is ended. */

import { Ports } from '../../../stack/ports.ts'

const [from = '', count = ''] = process.argv.slice(2)
const ports = new Ports({ remembered: {}, any: false })
const names = Array.from({ length: Number(count) }, (_, n) => `listener-${n}`)
await Promise.all(names.map((name) => ports.take(name, Number(from))))
console.log(JSON.stringify(Object.values(ports.reserved())))
// Before they listen, servers take seconds.
process.stdin.resume()
