/** A function: its default export is called with the JSON of the request. Deploy it: npx tenon fn deploy examples/greet.ts */

interface Input {
  readonly name?: string
}

export default ({ name = 'world' }: Input) => ({ message: `Hello, ${name}!`, letters: name.length })
