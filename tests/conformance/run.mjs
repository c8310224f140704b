// Starts the built server on a throwaway data directory and runs the checks against it, crash checks included.
//
//   ABIDE=/path/to/abide node run.mjs [--expect] [arguments of conformance.mjs]
//
// With --expect, checks that are not in expected-failures.txt must pass, and those that are must fail: a check that
// begins to pass is taken out of the list.
import { spawn, spawnSync } from "node:child_process"
import fs from "node:fs"
import net from "node:net"
import os from "node:os"
import path from "node:path"
import { fileURLToPath } from "node:url"

const here = path.dirname(fileURLToPath(import.meta.url))
const abide = process.env.ABIDE ?? "abide"
const argv = process.argv.slice(2)
const expect = argv.includes("--expect")
const rest = argv.filter((argument) => argument !== "--expect")

const freePort = () =>
  new Promise((resolve, reject) => {
    const server = net.createServer()
    server.on("error", reject)
    server.listen(0, "127.0.0.1", () => {
      const { port } = server.address()
      server.close(() => resolve(port))
    })
  })

const work = fs.realpathSync(fs.mkdtempSync(path.join(os.tmpdir(), "abide-conformance-")))
const port = await freePort()
const mockPort = await freePort()
const pidFile = path.join(work, "pid")
const environment = {
  ...process.env,
  ABIDE: abide,
  ABIDE_DATA_DIR: path.join(work, "data"),
  XDG_CONFIG_HOME: path.join(work, "config"),
  ABIDE_NO_RESUME: process.env.ABIDE_NO_RESUME ?? "",
}
for (const name of ["ABIDE_SERVER_PASSWORD", "OPENCODE_SERVER_PASSWORD"]) delete environment[name]
if (!environment.ABIDE_NO_RESUME) delete environment.ABIDE_NO_RESUME

// The script that the crash checks call: kill hard, start again on the same data.
const restart = path.join(work, "restart.sh")
const log = path.join(work, "server.log")
fs.writeFileSync(
  restart,
  `#!/bin/sh
[ -f "${pidFile}" ] && kill -9 "$(cat "${pidFile}")" 2>/dev/null
cd "${work}" || exit 1
"${abide}" serve --port ${port} >>"${log}" 2>&1 </dev/null &
echo $! >"${pidFile}"
`,
)
fs.mkdirSync(path.join(work, "config"), { recursive: true })
const start = spawnSync("/bin/sh", [restart], { env: environment, stdio: "inherit" })
if (start.status !== 0) {
  console.error("the server cannot be started")
  process.exit(1)
}

const report = path.join(work, "report.json")
const child = spawn(process.execPath, [path.join(here, "conformance.mjs"), "--report", report, ...rest], {
  env: {
    ...environment,
    BASE_URL: `http://127.0.0.1:${port}`,
    MOCK_PORT: String(mockPort),
    WORK_DIR: path.join(work, "projects"),
    RESTART_CMD: `sh ${restart}`,
  },
  stdio: "inherit",
})
const status = await new Promise((resolve) => child.on("exit", (code) => resolve(code ?? 1)))
try {
  process.kill(Number(fs.readFileSync(pidFile, "utf8")), "SIGKILL")
} catch {}

let failed = status !== 0
if (expect && fs.existsSync(report)) {
  const known = new Set(
    fs
      .readFileSync(path.join(here, "expected-failures.txt"), "utf8")
      .split("\n")
      .map((line) => line.replace(/#.*/, "").trim())
      .filter(Boolean)
      .map(Number),
  )
  const { results } = JSON.parse(fs.readFileSync(report, "utf8"))
  const worse = results.filter((item) => item.status === "fail" && !known.has(item.number))
  const better = results.filter((item) => item.status === "pass" && known.has(item.number))
  for (const item of worse) console.log(`# must pass: ${item.number} ${item.name}`)
  for (const item of better) console.log(`# passes now, take it out of expected-failures.txt: ${item.number} ${item.name}`)
  failed = worse.length > 0
  const count = (status) => results.filter((item) => item.status === status).length
  console.log(`# ${count("fail") - worse.length} known failures (expected-failures.txt), ${count("skip")} left out`)
  console.log(`${count("pass")} passed, ${worse.length} failed`)
}
if (!process.env.KEEP_WORK) fs.rmSync(work, { recursive: true, force: true })
else console.log(`# kept: ${work}`)
process.exit(failed ? 1 : 0)
