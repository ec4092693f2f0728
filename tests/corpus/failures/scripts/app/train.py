from engine import Trainer
from settings import load_settings


def main():
    settings = load_settings()
    trainer = Trainer(settings)
    trainer.fit()


if __name__ == "__main__":
    main()
