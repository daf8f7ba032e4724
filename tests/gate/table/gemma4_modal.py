# Ours: the form of a Modal program whose devices are counted by a constant in an f-string.
import subprocess

import modal

DEVICES = 2
image = modal.Image.debian_slim().uv_pip_install("vllm==0.19.0")
app = modal.App("chat", image=image)


@app.function(gpu=f"H200:{DEVICES}", timeout=600)
@modal.web_server(port=8000)
def serve():
    command = ["vllm", "serve", "google/gemma-4-26B-A4B-it", "--tensor-parallel-size", str(DEVICES)]
    command += ["--max-model-len", "32768", "--limit-mm-per-prompt", '{"image": 0, "audio": 0, "video": 0}']
    subprocess.Popen(command)
