"""One operation's evidence in a folder: a stranger checks it with the auditor's program alone."""

import asyncio
import json
from pathlib import Path

from fixtures.service.server import DeployService
from tests.scenario.kit import Home, environment, gateway_program, write_action


async def run(home: Home, address: str, *arguments: str) -> tuple[int, str, str]:
    process = await asyncio.create_subprocess_exec(
        *gateway_program(*arguments),
        env=environment(GATEWAY_CONFIG=str(home.config), GATEWAY_ADDR=address, GATEWAY_KEY=home.caller_key),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    return process.returncode or 0, out.decode(), err.decode()


async def test_a_bundle_holds_the_evidence_and_strangers_can_check_its_proofs(
    home: Home, service: DeployService, tmp_path: Path
) -> None:
    home.configure({"deploys": service.url}, {"deploy": write_action()}, audit={"checkpoint_interval_seconds": 0.1})
    folder, key = tmp_path / "bundle", str(home.folder / "auditor.key")
    async with home.running() as api:
        address = api.running.site.address
        document = await api.begin("deploy", wait=10, name="a")
        operation = document["operation_id"]
        await api.begin("deploy", wait=10, name="other")
        export = ("operations", "export", operation)
        plain = await run(home, address, *export)
        async with asyncio.timeout(30):
            # Until a checkpoint covers its last record, nothing could be proven to others.
            while (kept := await run(home, address, *export, "--key", key, "--out", str(folder)))[0] == 1:
                assert "cannot be disclosed" in kept[2]
        again = await run(home, address, *export, "--out", str(folder))
        wrong = await run(home, address, *export, "--key", str(home.data / "keys" / "log.key"))

    assert plain[0] == 0, plain
    bundle = json.loads(plain[1])
    assert bundle["operation"] == document | {"joined": False, "replayed": False}
    assert bundle["request_sha256"] == document["request_sha256"]
    assert (bundle["outcome"]["outcome"], bundle["steps"], bundle["attempts"], bundle["findings"]) == (
        "success", document["steps"], document["attempts"], document["evidence"],
    )  # fmt: skip
    assert bundle["disclosure"] is None
    assert kept[0] == 0, kept
    assert sorted(path.name for path in folder.iterdir()) == [
        "checkpoint",
        "disclosure",
        "evidence.json",
        "receipts.jsonl",
    ]
    trust = ("--trust", str(home.folder / "trust.policy"))
    disclosed = home.run_audit("check-disclosure", str(folder / "disclosure"), *trust, "--json")
    assert disclosed.returncode == 0, disclosed.stdout
    assert bundle["request_sha256"] in disclosed.stdout
    anchored = ("--anchor", str(home.folder / "anchors"), "--receipts", str(folder / "receipts.jsonl"))
    verified = home.run_audit("verify", str(home.log_folder()), *trust, *anchored)
    assert verified.returncode == 0, verified.stdout
    assert (again[0], wrong[0]) == (2, 1)
    assert "never overwritten" in again[2]
    assert "cannot be disclosed" in wrong[2]
